package delta;

import java.util.ArrayList;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.BaseEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * The rows that a query needs of one read of a Delta table: a number of them, the first ones in an order or any. {@link Rewrite} finds it on
 * its way from the limit down to the read, and tells Python, which may leave out files. Python: {@code limits.limit_of}.
 *
 * <p>A LocalLimit counts like a GlobalLimit: it limits each part of the rows, and all of them may be one part.
 */
class Limit {
  private final LogicalPlan top;
  private long rows = Long.MAX_VALUE;
  private Expression order;  // over columns of the leaf
  private SortOrder sorted;

  private Limit(LogicalPlan top) { this.top = top; }

  /** The limit at a node, over the rows of a table as they are now or were at a version; null if it is not one. */
  static Limit of(LogicalPlan node) {
    if (!(node instanceof GlobalLimit || node instanceof LocalLimit) || !node.deterministic()) return null;
    Limit limit = new Limit(node);
    LogicalPlan below = limit.walked();
    return below != null && limit.rows > 0 && limit.isOver(below) ? limit : null;
  }

  /** The node beneath limits, offsets, sorts and projections; null if one of them gives rows that this class does not understand. */
  private LogicalPlan walked() {
    LogicalPlan node = top;
    while (true) {
      boolean counts = node instanceof GlobalLimit || node instanceof LocalLimit || node instanceof Offset;
      if (counts ? !count(node) : node instanceof Sort && !sort((Sort) node)) return null;
      if (order != null && node instanceof Project)
        order = (Expression) order.transform(new Question.Inlined(((Project) node).projectList()));
      if (!counts && !(node instanceof Sort || node instanceof Project || node instanceof BaseEvalPython)) return node;
      node = (LogicalPlan) node.children().apply(0);
    }
  }

  /** Takes a limit or an offset into account. One beneath a sort selects rows before they are sorted. */
  private boolean count(LogicalPlan node) {
    Expression number = node instanceof Offset ? ((Offset) node).offsetExpr()
        : node instanceof GlobalLimit ? ((GlobalLimit) node).limitExpr() : ((LocalLimit) node).limitExpr();
    if (sorted != null || !(number instanceof Literal) || !(((Literal) number).value() instanceof Integer)) return false;
    int value = ((Integer) ((Literal) number).value()).intValue();
    rows = node instanceof Offset ? rows + value : Math.min(rows, value);
    return true;
  }

  private boolean sort(Sort node) {
    if (sorted != null || !node.global() || node.order().isEmpty()) return false;
    sorted = (SortOrder) node.order().apply(0);
    order = sorted.child();
    return true;
  }

  private boolean isOver(LogicalPlan below) {
    LogicalRelation leaf = Files.unplannedRows(below instanceof Filter ? ((Filter) below).child() : below);
    if (leaf == null || (order != null && !Files.areInFiles(order, leaf))) return false;
    return !(below instanceof Filter) || Files.areInFiles(((Filter) below).condition(), leaf);
  }

  /** The limit as JSON: rows; and if they are ordered, the first expression of the order as in {@link Files#json}. */
  String json() {
    String text = "{\"rows\":" + rows;
    if (order == null) return text + "}";
    text += ",\"order\":" + Files.json(new ArrayList(Arrays.asList(new Object[] {order})));
    text += ",\"descending\":" + (sorted.direction() == Descending$.MODULE$);
    return text + ",\"nulls_first\":" + (sorted.nullOrdering() == NullsFirst$.MODULE$) + "}";
  }
}
