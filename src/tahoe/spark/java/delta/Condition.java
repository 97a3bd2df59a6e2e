package delta;

import java.io.IOException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionDef;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionRef;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import scala.Function1;
import scala.collection.Iterator;
import scala.runtime.AbstractPartialFunction;

/**
 * Partial function over expressions: makes a filter's condition one that can be evaluated here, row by row, on columns that Python reads.
 * What only a query can evaluate (the current time, subqueries, Python functions) fails when it is evaluated. It is Java because the
 * expression is Spark's. Python: {@code touched_rows.RowCondition}.
 */
public class Condition extends AbstractPartialFunction {
  private final HashMap attributes = new HashMap();  // of the filter's input, by expression id
  private final HashMap common = new HashMap();  // expressions that are named inside of the condition, by their id
  private final ArrayList columns = new ArrayList();
  private final Expression bound;

  public Condition(Filter filter) {
    for (Iterator output = filter.child().output().iterator(); output.hasNext(); ) {
      Attribute attribute = (Attribute) output.next();
      attributes.put(attribute.exprId(), attribute);
    }
    bound = (Expression) filter.condition().transform(this);
    if (bound.containsPattern(TreePattern$.MODULE$.CURRENT_LIKE())) throw new UnsupportedOperationException("it depends on the time");
  }

  /** The names of the columns that {@link #matching} takes, in this order. */
  public List columns() { return columns; }

  /** The indexes of the rows for which the condition is true, as the bits of a {@link BitSet}. */
  public byte[] matching(Object message) throws IOException {
    final BitSet found = new BitSet();
    Answered.each(message, new Answered.Each() {
      private int index = 0;

      public void row(InternalRow row) {
        if (Boolean.TRUE.equals(bound.eval(row))) found.set(index);
        index++;
      }
    });
    return found.toByteArray();
  }

  public boolean isDefinedAt(Object node) {
    return node instanceof RuntimeReplaceable
        || node instanceof With
        || node instanceof CommonExpressionRef
        || node instanceof AttributeReference
        || node instanceof Cast && Literals.isWord((Cast) node);
  }

  public Object applyOrElse(Object node, Function1 otherwise) {
    Object now = node;
    while (isDefinedAt(now)) now = replaced(now);
    return isDefinedAt(node) ? now : otherwise.apply(node);
  }

  private Object replaced(Object node) {
    if (node instanceof RuntimeReplaceable) return ((RuntimeReplaceable) node).replacement();
    if (node instanceof CommonExpressionRef) return common.get(((CommonExpressionRef) node).id());
    if (node instanceof AttributeReference) return column((AttributeReference) node);
    if (node instanceof Cast) throw new UnsupportedOperationException("it may depend on the time");
    for (Iterator defs = ((With) node).defs().iterator(); defs.hasNext(); ) {
      CommonExpressionDef def = (CommonExpressionDef) defs.next();
      common.put(def.id(), def.child());
    }
    return ((With) node).child();
  }

  private BoundReference column(AttributeReference reference) {
    String name = ((Attribute) attributes.get(reference.exprId())).name();
    if (!columns.contains(name)) columns.add(name);
    return new BoundReference(columns.indexOf(name), reference.dataType(), true);
  }
}
