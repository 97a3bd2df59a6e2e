package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * MERGE before Spark resolves it. Spark leaves it alone on tables that accept any schema, as ours do for INSERT, so that it gets one that does
 * not. What Spark would resolve otherwise than is meant is written so that it does not see it: stars, which take the columns that
 * there are, and, where the table may take in columns, names of columns that it does not have.
 */
public class Merges extends Rule {
  /** What stands for the columns and the values of UPDATE SET * and INSERT *. */
  static final Literal STAR = new Literal(null, StringType$.MODULE$);

  private static final String GROWS = "spark.databricks.delta.schema.autoMerge.enabled";

  private final SparkSession session;

  public Merges(SparkSession session) { this.session = session; }

  public TreeNode apply(TreeNode tree) {
    if (!(tree instanceof MergeIntoTable)) return tree;
    MergeIntoTable merge = (MergeIntoTable) tree;
    if (!merge.targetTable().resolved() || !merge.sourceTable().resolved()) return tree;
    LogicalPlan target = (LogicalPlan) merge.targetTable().transformDown(new Strict());
    if (target == merge.targetTable()) return tree;
    boolean grows = merge.withSchemaEvolution() || "true".equalsIgnoreCase(session.conf().get(GROWS, "false"));
    HashMap fields = new HashMap();
    fields.put("targetTable", target);
    fields.put("matchedActions", actions(merge, merge.matchedActions(), grows));
    fields.put("notMatchedActions", actions(merge, merge.notMatchedActions(), grows));
    fields.put("notMatchedBySourceActions", actions(merge, merge.notMatchedBySourceActions(), grows));
    return (TreeNode) Cases.changed((Product) merge, fields);
  }

  private Seq actions(MergeIntoTable merge, Seq actions, boolean grows) {
    ArrayList marked = new ArrayList();
    for (Iterator it = actions.iterator(); it.hasNext(); ) marked.add(action(merge, it.next(), grows));
    return CollectionConverters.asScala(marked).toSeq();
  }

  private Object action(MergeIntoTable merge, Object action, boolean grows) {
    if (action instanceof UpdateStarAction) return built("UpdateAction", ((UpdateStarAction) action).condition(), star());
    if (action instanceof InsertStarAction) return built("InsertAction", ((InsertStarAction) action).condition(), star());
    boolean assigns = action instanceof UpdateAction || action instanceof InsertAction;
    if (!grows || !assigns) return action;
    Seq given = action instanceof UpdateAction ? ((UpdateAction) action).assignments() : ((InsertAction) action).assignments();
    ArrayList assignments = new ArrayList();
    for (Iterator it = given.iterator(); it.hasNext(); ) assignments.add(assignment(merge, (Assignment) it.next()));
    Seq all = CollectionConverters.asScala(assignments).toSeq();
    return Cases.changed((Product) action, Collections.singletonMap("assignments", all));
  }

  private static Object built(String name, Option condition, Seq assignments) {
    ArrayList fields = new ArrayList();
    fields.add(condition);
    fields.add(assignments);
    return Cases.built("org.apache.spark.sql.catalyst.plans.logical." + name, fields);
  }

  private static Seq star() {
    return CollectionConverters.asScala(Collections.singletonList(new Assignment(STAR, STAR))).toSeq();
  }

  /** A column that only the source has is called by a constant. */
  private Assignment assignment(MergeIntoTable merge, Assignment given) {
    if (!(given.key() instanceof UnresolvedAttribute)) return given;
    Seq parts = ((UnresolvedAttribute) given.key()).nameParts();
    Names resolver = new Names(session);
    if (parts.size() > 2 || resolver.find(merge.targetTable(), parts)) return given;
    Attribute found = resolver.named(merge.sourceTable(), (String) parts.last());
    if (found == null) return given;
    return new Assignment(new Literal(UTF8String.fromString(found.name()), StringType$.MODULE$), given.value());
  }

  /** Names as the session compares them. */
  private static class Names {
    private final scala.Function2 same;

    Names(SparkSession session) { same = session.sessionState().conf().resolver(); }

    boolean find(LogicalPlan plan, Seq parts) { return plan.resolve(parts, same).isDefined(); }

    Attribute named(LogicalPlan plan, String name) {
      for (Iterator output = plan.output().iterator(); output.hasNext(); ) {
        Attribute attribute = (Attribute) output.next();
        if (((Boolean) same.apply(attribute.name(), name)).booleanValue()) return attribute;
      }
      return null;
    }
  }

  /** The target as a table whose columns are those that it has. */
  private static class Strict extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (!(node instanceof DataSourceV2Relation)) return false;
      Object table = ((DataSourceV2Relation) node).table();
      return table instanceof WriteTable && !((WriteTable) table).isStrict();
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      WriteTable table = (WriteTable) ((DataSourceV2Relation) node).table();
      return Cases.changed((Product) node, Collections.singletonMap("table", table.strict()));
    }
  }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new Merges((SparkSession) session); }
  }
}
