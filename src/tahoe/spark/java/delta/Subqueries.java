package delta;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.PrettyAttribute;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.types.BooleanType$;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** The queries in a condition, of which Spark knows no text but that which the user wrote. */
public class Subqueries extends AbstractPartialFunction {
  private final ArrayList origins = new ArrayList();
  private final List texts;

  private Subqueries(List texts) { this.texts = texts; }

  /** For each, the text of what Spark's parser read when it met it, which is more than the query; nothing where no text was read. */
  public static List origins(Expression condition) {
    Subqueries found = new Subqueries(null);
    condition.transform(found);
    return found.origins;
  }

  /** The condition as SQL, as {@link Literals#sql} has it, with these texts for its queries, in the order of {@link #origins}. */
  public static String sql(Expression condition, List texts) {
    return Literals.sql((Expression) condition.transform(new Subqueries(texts)));
  }

  public boolean isDefinedAt(Object node) { return node instanceof InSubquery || node instanceof SubqueryExpression; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    String query = texts == null ? "" : (String) texts.get(origins.size());
    boolean isIn = node instanceof InSubquery;
    origins.add(origin(isIn ? ((InSubquery) node).query() : (Expression) node));
    String before = node instanceof Exists ? "EXISTS " : isIn ? values((InSubquery) node) + " IN " : "";
    String text = before + "(" + query + ")";
    return new PrettyAttribute(isIn ? "(" + text + ")" : text, BooleanType$.MODULE$);
  }

  private static String values(InSubquery in) {
    String text = "";
    for (int i = 0; i < in.values().size(); i++) text += (i == 0 ? "" : ", ") + Literals.sql((Expression) in.values().apply(i));
    return in.values().size() == 1 ? text : "(" + text + ")";
  }

  private static String origin(Expression query) {
    Origin origin = query.origin();
    if (origin.sqlText().isEmpty() || origin.startIndex().isEmpty() || origin.stopIndex().isEmpty()) return "";
    String text = (String) origin.sqlText().get();
    int from = ((Integer) origin.startIndex().get()).intValue();
    int end = ((Integer) origin.stopIndex().get()).intValue() + 1;
    return 0 <= from && from <= end && end <= text.length() ? text.substring(from, end) : "";
  }
}
