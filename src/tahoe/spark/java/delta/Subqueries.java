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

/**
 * Partial function over expressions: replaces the subqueries in a condition with their text, for the operation parameters in the history.
 * Spark cannot convert a subquery to SQL; only the text that the user wrote is known. {@code touched_rows.condition_text} calls it.
 */
public class Subqueries extends AbstractPartialFunction {
  private final ArrayList origins = new ArrayList();
  private final List texts;

  private Subqueries(List texts) { this.texts = texts; }

  /** For each subquery, the SQL text from which it was parsed, which may be longer than the subquery; empty if there is none. */
  public static List origins(Expression condition) {
    Subqueries found = new Subqueries(null);
    condition.transform(found);
    return found.origins;
  }

  /** The condition as SQL, as in {@link Literals#sql}, with these texts for its subqueries, in the order of {@link #origins}. */
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
