package delta;

import java.util.Collections;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import scala.Function1;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Analyzer rule: gives a stream over a Delta table the column {@code _metadata} if the query uses it. Spark has this column only for streams
 * over file formats; it reads the column of a batch from the batch's relations itself. Python: {@code streams.source.described}.
 */
public class StreamMetadata extends Rule {
  private static final String NAME = "_metadata";

  private final SparkSession session;

  public StreamMetadata(SparkSession session) { this.session = session; }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new StreamMetadata((SparkSession) session); }
  }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = (LogicalPlan) tree;
    return plan.resolved() || !plan.isStreaming() ? tree : (TreeNode) plan.transformDown(new Users());
  }

  /** Partial function over plans: nodes that use the column, directly above a stream that lacks it. */
  private class Users extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return (node instanceof Project || node instanceof Aggregate || node instanceof Filter) && uses((LogicalPlan) node);
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      LogicalPlan child = (LogicalPlan) ((LogicalPlan) node).children().apply(0);
      LogicalPlan with = child.resolved() && column(child.output()) == null ? with(child) : null;
      if (with == null) return otherwise.apply(node);
      LogicalPlan changed = (LogicalPlan) ((LogicalPlan) node).withNewChildren(only(with));
      Seq before = child.output();
      return node instanceof Filter ? new Project(before, changed) : changed;
    }
  }

  /** Whether an expression of a node names the column, and Spark has not found it. */
  private static boolean uses(LogicalPlan node) {
    for (Iterator expressions = node.expressions().iterator(); expressions.hasNext(); ) {
      TreeNode expression = (TreeNode) expressions.next();
      for (Iterator leaves = expression.collectLeaves().iterator(); leaves.hasNext(); ) {
        Object leaf = leaves.next();
        if (!(leaf instanceof UnresolvedAttribute)) continue;
        for (Iterator parts = ((UnresolvedAttribute) leaf).nameParts().iterator(); parts.hasNext(); ) {
          if (NAME.equalsIgnoreCase((String) parts.next())) return true;
        }
      }
    }
    return false;
  }

  /** The column in the output of a plan; null if it has none. A table may have a column of its own with this name. */
  private static Attribute column(Seq output) {
    for (Iterator columns = output.iterator(); columns.hasNext(); ) {
      Attribute column = (Attribute) columns.next();
      if (NAME.equals(column.name()) && column.metadata().contains(Rewrite.MADE_UP)) return column;
    }
    return null;
  }

  /** The plan, which is resolved, with the column in its output; null if it is not the rows of a stream over a Delta table. */
  private LogicalPlan with(LogicalPlan plan) {
    if (column(plan.output()) != null) return plan;
    if (plan instanceof StreamingRelation) return read((StreamingRelation) plan);
    boolean keepsRows = plan instanceof SubqueryAlias || plan instanceof Filter || plan instanceof EventTimeWatermark;
    if (!keepsRows && !(plan instanceof Project)) return null;
    LogicalPlan child = with((LogicalPlan) plan.children().apply(0));
    if (child == null) return null;
    if (plan instanceof Project) return new Project((Seq) ((Project) plan).projectList().appended(column(child.output())), child);
    return (LogicalPlan) plan.withNewChildren(only(child));
  }

  private LogicalPlan read(StreamingRelation relation) {
    DataSource source = relation.dataSource();
    for (Iterator columns = relation.output().iterator(); columns.hasNext(); ) {
      if (NAME.equalsIgnoreCase(((Attribute) columns.next()).name())) return null;
    }
    if (!Names.DELTA.equalsIgnoreCase(source.className())) return null;
    Relation read = (Relation) Ask.answer(Ask.python.streamRelation(session, DefaultSource.asWritten(source.options()), source.options()));
    Seq output = (Seq) relation.output().appended(read.leaf(false).metadataOutput().head());
    return (LogicalPlan) Cases.changed((Product) relation, Collections.singletonMap("output", output));
  }

  private static Seq only(LogicalPlan child) { return CollectionConverters.asScala(Collections.singletonList(child)).toSeq(); }
}
