package delta;

import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The last rule of the optimiser. It gives every table of ours in a query the version and the files, or the plan, that Python chooses, and
 * keeps the attributes that the query already uses; and it lets Python see every command before it runs.
 */
public class Rewrite extends Rule {
  private final SparkSession session;

  /** Under this key Spark notes what a column that it has made up is called. */
  private static final String MADE_UP = "__metadata_col";

  public Rewrite(SparkSession session) { this.session = session; }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = (LogicalPlan) tree;
    if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Command && !(plan instanceof OurCommand)) {
      Object instead = Ask.answer(Ask.python.command(session, plan.getClass().getSimpleName(), plan));
      if (instead != null) return (LogicalPlan) instead;
    }
    if (readsOurs(plan)) plan = rewrite(plan, plan.outputSet());
    return plan.transformAllExpressions(new Subqueries());
  }

  private static boolean readsOurs(LogicalPlan plan) {
    for (Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
      if (isOurs((LogicalPlan) leaves.next())) return true;
    }
    return false;
  }

  private static boolean isOurs(LogicalPlan node) {
    Files files = Files.of(node);
    return files != null && !files.planned() && !node.isStreaming();
  }

  /** @param above what of the node's output is used */
  private LogicalPlan rewrite(LogicalPlan node, AttributeSet above) {
    if (isOurs(node)) return read((LogicalRelation) node, null, above);
    AttributeSet used = above.$plus$plus(node.references());
    if (node instanceof Filter && isOurs(((Filter) node).child()))
      return read((LogicalRelation) ((Filter) node).child(), ((Filter) node).condition(), used);
    boolean narrows = node instanceof Project || node instanceof Aggregate;
    ArrayList rewritten = new ArrayList();
    for (Iterator children = node.children().iterator(); children.hasNext(); ) {
      LogicalPlan child = (LogicalPlan) children.next();  // a Union or a command takes all of it without naming columns
      rewritten.add(rewrite(child, narrows ? node.references() : node instanceof Filter ? used : child.outputSet()));
    }
    return (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(rewritten).toSeq());
  }

  private LogicalPlan read(LogicalRelation given, Expression condition, AttributeSet used) {
    LogicalRelation leaf = withoutUnused(given, used);
    Files files = Files.of(leaf);
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    if (!(files instanceof Changes)) checkOptions(relation.options(), files);
    ArrayList conditions = new ArrayList();
    if (condition != null) split(condition, conditions);
    // by now Spark may have narrowed the leaf to the nested fields in use, and asked for parts of _metadata
    String name = leaf.catalogTable().isEmpty() ? "" : ((CatalogTable) leaf.catalogTable().get()).identifier().unquotedString();
    Planned planned = (Planned) Ask.answer(files instanceof Changes
        ? Ask.python.changes(
            session, files.key(), files.selection(), name, relation.dataSchema().json(), leaf.schema().json(), Files.json(conditions))
        : Ask.python.plan(
            session, files.key(), files.metadata(), files.partitionSchema().json(), name, files.within(), Versions.seen(files),
            relation.dataSchema().json(), leaf.schema().json(), Files.json(conditions)));
    Versions.see(files, planned.version());
    if (planned.rows() == null) return filtered(conditions, scan(leaf, relation, planned.files(files), planned.format()));
    // the optimiser cannot be run on a part of a query that refers to a common table expression beside it
    ArrayList inside = new ArrayList();
    ArrayList outside = new ArrayList();
    for (int i = 0; i < conditions.size(); i++) {
      boolean refers = ((Expression) conditions.get(i)).containsPattern(TreePattern$.MODULE$.CTE());
      (refers ? outside : inside).add(conditions.get(i));
    }
    return filtered(outside, optimised(filtered(inside, rows(leaf, planned, used))));
  }

  /** Spark makes a struct of `_metadata` for each row, and with all its fields, where a relation still has it that nothing asks for. */
  private static LogicalRelation withoutUnused(LogicalRelation leaf, AttributeSet used) {
    ArrayList left = new ArrayList();
    for (Iterator columns = leaf.output().iterator(); columns.hasNext(); ) {
      Attribute column = (Attribute) columns.next();
      if (used.contains(column) || !column.metadata().contains(MADE_UP)) left.add(column);
    }
    if (left.size() == leaf.output().size()) return leaf;
    return leaf.copy(leaf.relation(), CollectionConverters.asScala(left).toSeq(), leaf.catalogTable(), leaf.isStreaming(), leaf.stream());
  }

  /** Spark may have found a table's rows by a name that another thread had just read, where this one asked for the change feed. */
  private static void checkOptions(scala.collection.immutable.Map options, Files files) {
    for (Iterator names = options.keysIterator(); names.hasNext(); ) {
      String name = (String) names.next();
      boolean isSwitch = name.equalsIgnoreCase("readChangeFeed") || name.equalsIgnoreCase("readChangeData");
      if (isSwitch && "true".equalsIgnoreCase((String) options.get(name).get()))
        throw new IllegalStateException("The change feed of " + files.table() + " was not found by its name. Create the DataFrame again.");
    }
  }

  private static LogicalPlan filtered(ArrayList conditions, LogicalPlan plan) {
    if (conditions.isEmpty()) return plan;
    Expression all = (Expression) conditions.get(0);
    for (int i = 1; i < conditions.size(); i++) all = new And(all, (Expression) conditions.get(i));
    return new Filter(all, plan);
  }

  private static void split(Expression condition, ArrayList parts) {
    if (condition instanceof And) {
      split(((And) condition).left(), parts);
      split(((And) condition).right(), parts);
    } else {
      parts.add(condition);
    }
  }

  private static LogicalPlan scan(LogicalRelation leaf, HadoopFsRelation relation, Files files, FileFormat format) {
    Relation planned = new Relation(files, relation.dataSchema(), format, relation.options(), relation.sparkSession());
    return leaf.copy(planned, leaf.output(), Relation.labelled(leaf.catalogTable(), files.label()), leaf.isStreaming(), leaf.stream());
  }

  /** Python's plan with the attributes that the query knows, those that it uses. */
  private static LogicalPlan rows(LogicalRelation leaf, Planned planned, AttributeSet used) {
    LogicalPlan inner = ((org.apache.spark.sql.classic.Dataset) planned.rows()).queryExecution().analyzed();
    HashMap byName = new HashMap();
    for (Iterator from = inner.output().iterator(); from.hasNext(); ) {
      Attribute attribute = (Attribute) from.next();
      byName.put(attribute.name(), attribute);
    }
    ArrayList columns = new ArrayList();
    for (Iterator to = leaf.output().iterator(); to.hasNext(); ) {
      Attribute outer = (Attribute) to.next();
      if (used.contains(outer)) columns.add(alias((Attribute) byName.get(outer.name()), outer));
    }
    return new Project(CollectionConverters.asScala(columns).toSeq(), inner);
  }

  /** The plan as the optimiser makes it, so that filters and columns reach the scan; it may drop the aliases that kept the identities. */
  private LogicalPlan optimised(LogicalPlan plan) {
    LogicalPlan best = (LogicalPlan) session.sessionState().optimizer().execute(plan);
    ArrayList restored = new ArrayList();
    Iterator got = best.output().iterator();
    for (Iterator wanted = plan.output().iterator(); wanted.hasNext(); ) {
      Attribute outer = (Attribute) wanted.next();
      Attribute inside = (Attribute) got.next();
      if (outer.exprId().equals(inside.exprId())) restored.add(inside);
      else restored.add(alias(inside, outer));
    }
    return new Project(CollectionConverters.asScala(restored).toSeq(), best);
  }

  private static Alias alias(Attribute inside, Attribute outer) {
    Seq nothing = CollectionConverters.asScala(new ArrayList()).toSeq();
    return new Alias(inside, outer.name(), outer.exprId(), outer.qualifier(), Option.empty(), nothing);
  }

  /** Subqueries that were added late, such as runtime Bloom filters, are seen by no rule but this one. */
  private class Subqueries extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof PlanExpression && ((PlanExpression) node).plan() instanceof LogicalPlan;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      LogicalPlan before = (LogicalPlan) ((PlanExpression) node).plan();
      LogicalPlan after = (LogicalPlan) Rewrite.this.apply((TreeNode) before);
      return after == before ? node : ((PlanExpression) node).withNewPlan(after);
    }
  }
}
