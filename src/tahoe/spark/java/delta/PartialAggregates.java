package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.PlanLater;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Spark's plan of an aggregation over a union of scans that run natively, with the partial aggregation in each branch of the union. A native
 * engine runs a branch as one plan and hands its rows to the next one at a union: with a table's deletion vectors, these are all of its rows.
 */
public class PartialAggregates extends SparkStrategy {
  private final SparkSession session;

  public PartialAggregates(SparkSession session) { this.session = session; }

  public Seq apply(LogicalPlan plan) {
    if (!(plan instanceof Aggregate) || plan.isStreaming() || !isDeterministic(plan)) return seq(new ArrayList());
    LogicalPlan child = ((Aggregate) plan).child();
    Union union = union(child);
    if (union == null) return seq(new ArrayList());
    Seq planned = session.sessionState().planner().Aggregation().apply(plan);
    if (planned.isEmpty()) return planned;
    return seq(Collections.singletonList(((SparkPlan) planned.head()).transformUp(new Split(child, union))));
  }

  /** The union of native scans under filters and projections; null if there is none. */
  private static Union union(LogicalPlan node) {
    if (node instanceof Union) return areNative((Union) node) ? (Union) node : null;
    return (node instanceof Project || node instanceof Filter) && isDeterministic(node) ? union((LogicalPlan) node.children().head()) : null;
  }

  private static boolean areNative(Union union) {
    for (Iterator branches = union.children().iterator(); branches.hasNext(); ) {
      boolean found = false;
      for (Iterator leaves = ((LogicalPlan) branches.next()).collectLeaves().iterator(); leaves.hasNext(); ) {
        LogicalPlan leaf = (LogicalPlan) leaves.next();
        found |= Files.of(leaf) != null
            && ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).fileFormat().getClass() == ParquetFileFormat.class;
      }
      if (!found) return false;
    }
    return true;
  }

  private static boolean isDeterministic(LogicalPlan node) {
    for (Iterator it = node.expressions().iterator(); it.hasNext(); ) if (!((Expression) it.next()).deterministic()) return false;
    return true;
  }

  private static Seq seq(List items) { return CollectionConverters.asScala(items).toSeq(); }

  /** Partial function over physical plans: the partial aggregation of a plan, as a union of one for each branch. */
  private static class Split extends AbstractPartialFunction {
    private final LogicalPlan child;
    private final Union union;

    Split(LogicalPlan child, Union union) {
      this.child = child;
      this.union = union;
    }

    public boolean isDefinedAt(Object node) {
      if (!(node instanceof BaseAggregateExec)) return false;
      BaseAggregateExec aggregate = (BaseAggregateExec) node;
      SparkPlan below = (SparkPlan) ((SparkPlan) node).children().head();
      if (!(below instanceof PlanLater) || ((PlanLater) below).plan() != child) return false;
      if (!aggregate.requiredChildDistributionExpressions().isEmpty()) return false;
      for (Iterator it = aggregate.aggregateExpressions().iterator(); it.hasNext(); )
        if (((AggregateExpression) it.next()).mode() != Partial$.MODULE$) return false;
      return true;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      ArrayList parts = new ArrayList();
      for (Iterator branches = union.children().iterator(); branches.hasNext(); ) {
        LogicalPlan branch = over(child, named((LogicalPlan) branches.next()));
        parts.add(((SparkPlan) node).withNewChildren(seq(Collections.singletonList(new PlanLater(branch)))));
      }
      return new UnionExec(seq(parts));
    }

    /** The filters and projections above the union, over a branch of it. */
    private LogicalPlan over(LogicalPlan node, LogicalPlan branch) {
      if (node == union) return branch;
      LogicalPlan below = over((LogicalPlan) node.children().head(), branch);
      return (LogicalPlan) node.withNewChildren(seq(Collections.singletonList(below)));
    }

    /** A branch with the attributes of the union. */
    private LogicalPlan named(LogicalPlan branch) {
      ArrayList columns = new ArrayList();
      Iterator wanted = union.output().iterator();
      for (Iterator it = branch.output().iterator(); it.hasNext(); ) {
        Attribute column = (Attribute) it.next();
        Attribute as = (Attribute) wanted.next();
        columns.add(column.exprId().equals(as.exprId()) ? (Object) column : Aliases.of(column, as));
      }
      return new Project(seq(columns), branch);
    }
  }
}
