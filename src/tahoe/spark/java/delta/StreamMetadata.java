package delta;

import java.util.Collections;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Project$;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import scala.Function1;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Analyzer rule: offers the column {@code _metadata} of a stream over a Delta table to Spark's own rules, if a query names it. Spark offers
 * it only for streams over file formats; it reads the column of a batch from the batch's relations itself. Python: {@code
 * streams.source.metadata_relation}.
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
    if (plan.resolved() || !plan.isStreaming() || !names(plan)) return tree;
    return (TreeNode) plan.transformDown(new Streams(plan.collectLeaves().size() == 1));
  }

  /** Whether an expression of a plan names the column, and Spark has not found it. */
  private static boolean names(LogicalPlan plan) {
    for (Iterator expressions = plan.expressions().iterator(); expressions.hasNext(); ) {
      for (Iterator leaves = ((TreeNode) expressions.next()).collectLeaves().iterator(); leaves.hasNext(); ) {
        Object leaf = leaves.next();
        if (!(leaf instanceof UnresolvedAttribute)) continue;
        for (Iterator parts = ((UnresolvedAttribute) leaf).nameParts().iterator(); parts.hasNext(); ) {
          if (NAME.equalsIgnoreCase((String) parts.next())) return true;
        }
      }
    }
    for (Iterator children = plan.children().iterator(); children.hasNext(); ) {
      if (names((LogicalPlan) children.next())) return true;
    }
    return false;
  }

  /** Partial function over plans: a stream over a Delta table becomes a projection of it that hides the column, as a join with USING does. */
  private class Streams extends AbstractPartialFunction {
    private final boolean alone;

    /** {@code alone}: whether the query reads nothing else, so that the column must be that of the stream. */
    Streams(boolean alone) { this.alone = alone; }

    public boolean isDefinedAt(Object node) {
      StreamingRelation relation = relation(node);
      if (relation == null || !Names.DELTA.equalsIgnoreCase(relation.dataSource().className())) return false;
      for (Iterator columns = relation.output().iterator(); columns.hasNext(); ) {
        if (NAME.equalsIgnoreCase(((Attribute) columns.next()).name())) return false;
      }
      return true;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      StreamingRelation relation = relation(node);
      scala.collection.immutable.Map options = relation.dataSource().options();
      Relation read = (Relation) Ask.answer(Ask.python.streamRelation(session, DefaultSource.asWritten(options), options, alone));
      if (read == null) return otherwise.apply(node);
      Seq output = (Seq) relation.output().appended(read.leaf(false).metadataOutput().head());
      LogicalPlan with = over((LogicalPlan) node, (LogicalPlan) Cases.changed((Product) relation, Collections.singletonMap("output", output)));
      Project hiding = new Project((Seq) ((LogicalPlan) node).output(), with);
      TreeNodeTag hidden = Project$.MODULE$.hiddenOutputTag();
      hiding.setTagValue(hidden, only(with.output().last()));
      return hiding;
    }
  }

  /** The stream that a plan is, under any aliases; null for other plans. Spark 4.1 looks for hidden columns above all aliases. */
  private static StreamingRelation relation(Object plan) {
    while (plan instanceof SubqueryAlias) plan = ((SubqueryAlias) plan).child();
    return plan instanceof StreamingRelation ? (StreamingRelation) plan : null;
  }

  /** The aliases of a plan over another relation. */
  private static LogicalPlan over(LogicalPlan plan, LogicalPlan relation) {
    if (!(plan instanceof SubqueryAlias)) return relation;
    return (LogicalPlan) plan.withNewChildren(only(over(((SubqueryAlias) plan).child(), relation)));
  }

  private static Seq only(Object item) { return CollectionConverters.asScala(Collections.singletonList(item)).toSeq(); }
}
