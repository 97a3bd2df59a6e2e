package delta;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The last user-provided rule of the optimizer. It plans each read of a Delta table: Python chooses a version and files, or a plan for the
 * rows, and the query's attributes stay the same. It also passes every command to Python, which may replace or refuse it before it runs.
 * {@link Joins} finds scans that leave out files when the query runs. Python: {@code planning.plan_scan}, {@code planning.answer},
 * {@code change_feed.plan_change_feed}, {@code commands.instead_of}.
 */
public class Rewrite extends Rule {
  private final SparkSession session;

  /** The metadata key with which Spark marks columns that it generates, such as {@code _metadata}. */
  static final String MADE_UP = "__metadata_col";

  public Rewrite(SparkSession session) { this.session = session; }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = lowered((LogicalPlan) tree);
    if (isCommands(plan)) return several(plan);
    LogicalPlan top = plan instanceof WithCTE ? ((WithCTE) plan).plan() : plan;  // Spark puts subqueries that it merged above a command
    if (top instanceof org.apache.spark.sql.catalyst.plans.logical.Command && !(top instanceof OurCommand)) {
      Object instead = Ask.answer(Ask.python.command(session, top.getClass().getSimpleName(), top));
      if (instead != null) return (LogicalPlan) instead;
    }
    return apply(plan, plan instanceof Subquery);
  }

  /** The plan; of writes above which Spark has put subqueries that it merged, with these in their queries, which are run for themselves. */
  private static LogicalPlan lowered(LogicalPlan plan) {
    return plan instanceof WithCTE ? lowered(((WithCTE) plan).plan(), (WithCTE) plan) : plan;
  }

  private static LogicalPlan lowered(LogicalPlan below, WithCTE merged) {
    if (below instanceof V2WriteCommand) return withParts(below, merged);
    if (!isCommands(below)) return merged;
    ArrayList each = new ArrayList();
    for (Iterator it = below.children().iterator(); it.hasNext(); ) each.add(withParts((LogicalPlan) it.next(), merged));
    return (LogicalPlan) below.withNewChildren(CollectionConverters.asScala(each).toSeq());
  }

  /** One of several commands, with the merged subqueries in its query. */
  private static LogicalPlan withParts(LogicalPlan command, WithCTE merged) {
    ArrayList queries = new ArrayList();
    for (Iterator it = command.children().iterator(); it.hasNext(); ) queries.add(new WithCTE((LogicalPlan) it.next(), merged.cteDefs()));
    return (LogicalPlan) command.withNewChildren(CollectionConverters.asScala(queries).toSeq());
  }

  /** What Python runs instead of several commands, or the rule for each of them. */
  private LogicalPlan several(LogicalPlan union) {
    Object instead = Ask.answer(Ask.python.command(session, union.getClass().getSimpleName(), union));
    if (instead != null) return (LogicalPlan) instead;
    ArrayList each = new ArrayList();
    for (Iterator it = union.children().iterator(); it.hasNext(); ) each.add(apply((TreeNode) it.next()));
    return (LogicalPlan) union.withNewChildren(CollectionConverters.asScala(each).toSeq());
  }

  /** Whether a plan is several commands: Spark makes a Union of the INSERTs of one statement, into tables of any source and folders. */
  static boolean isCommands(LogicalPlan plan) {
    if (!(plan instanceof Union)) return false;
    for (Iterator it = plan.children().iterator(); it.hasNext(); )
      if (!(it.next() instanceof org.apache.spark.sql.catalyst.plans.logical.Command)) return false;
    return true;
  }

  /**
   * @param inner whether the plan is a subquery, which Spark optimizes before the query, or a part of one. Aggregations that the log may
   *     answer are left as they are until the query itself is optimized: it may be a command, which must see what it reads.
   */
  private LogicalPlan apply(LogicalPlan plan, boolean inner) {
    if (readsOurs(plan)) {
      Joins joins = new Joins(session);
      plan = joins.pruned(rewrite(plan, plan.outputSet(), inner, joins, null));
    }
    return (LogicalPlan) plan.transformAllExpressions(new Subqueries(inner));
  }

  /** Whether a plan has a read of a Delta table that is not planned yet. */
  private static boolean readsOurs(LogicalPlan plan) {
    for (Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
      if (isOurs((LogicalPlan) leaves.next())) return true;
    }
    return false;
  }

  private static boolean isOurs(LogicalPlan node) {
    Files files = Files.of(node);
    return files != null && !files.planned();
  }

  /**
   * A plan with its reads planned.
   *
   * @param above the attributes of the node that the plan above it uses
   * @param inner see {@link #apply}
   * @param joins is told of each read
   * @param within the limit above the node whose rows it has, or null
   */
  private LogicalPlan rewrite(LogicalPlan node, AttributeSet above, boolean inner, Joins joins, Limit within) {
    Limit limit = within == null ? Limit.of(node) : within;
    if (isOurs(node)) return read((LogicalRelation) node, null, above, joins, limit);
    Question question = Question.of(node);
    LogicalPlan answered = question == null ? null : inner ? node : answered(question, joins);
    if (answered != null) return answered;
    AttributeSet used = above.$plus$plus(node.references());
    if (node instanceof Filter && isOurs(((Filter) node).child()))
      return read((LogicalRelation) ((Filter) node).child(), ((Filter) node).condition(), used, joins, limit);
    boolean narrows = node instanceof Project || node instanceof Aggregate;
    ArrayList rewritten = new ArrayList();
    for (Iterator children = node.children().iterator(); children.hasNext(); ) {
      LogicalPlan child = (LogicalPlan) children.next();  // a Union or a command uses all output without referring to it
      rewritten.add(rewrite(child, narrows ? node.references() : node instanceof Filter ? used : child.outputSet(), inner, joins, limit));
    }
    return (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(rewritten).toSeq());
  }

  /** What takes the place of an aggregation that Python answers from the log, at least in part; null if it does not. */
  private LogicalPlan answered(Question question, Joins joins) {
    LogicalRelation leaf = withoutUnused(question.leaf(), question.used());
    Files files = Files.of(leaf);
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    checkOptions(relation.options(), files);
    Answered found = (Answered) Ask.answer(Ask.python.answer(
        session, files.key(), files.metadata(), files.partitionSchema().json(), name(leaf), Versions.seen(files),
        CollectionConverters.asJava(relation.options()), relation.dataSchema().json(), used(leaf, question.used()),
        Files.json(question.conditions()), question.json()));
    Versions.see(files, found.version());
    if (!found.answers()) return null;
    LogicalPlan rest = found.rest() == null ? null : planned(leaf, found.rest(), question.conditions(), question.used(), joins);
    return question.answered(session, found, rest);
  }

  /** Plans one read. {@code condition} is that of the filter above it, {@code limit} that of its rows; either may be null. */
  private LogicalPlan read(LogicalRelation given, Expression condition, AttributeSet used, Joins joins, Limit limit) {
    LogicalRelation leaf = withoutUnused(given, used);
    Files files = Files.of(leaf);
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    if (!(files instanceof Changes) && files.within() == null) checkOptions(relation.options(), files);
    ArrayList conditions = new ArrayList();
    if (condition != null) split(condition, conditions);
    // Spark may have pruned the relation's nested fields, and added _metadata to its output
    Planned planned = (Planned) Ask.answer(files instanceof Changes
        ? Ask.python.changes(
            session, files.key(), files.selection(), name(leaf), relation.dataSchema().json(), used(leaf, used), Files.json(conditions))
        : Ask.python.plan(
            session, files.key(), files.metadata(), files.partitionSchema().json(), name(leaf), files.within(), Versions.seen(files),
            relation.dataSchema().json(), used(leaf, used), Files.json(conditions), limit == null ? "" : limit.json(),
            CollectionConverters.asJava(relation.options())));
    Versions.see(files, planned.version());
    return planned(leaf, planned, conditions, used, joins);
  }

  private static String name(LogicalRelation leaf) {
    return leaf.catalogTable().isEmpty() ? "" : ((CatalogTable) leaf.catalogTable().get()).identifier().unquotedString();
  }

  /** The plan of one read, with its conditions applied. */
  private LogicalPlan planned(LogicalRelation leaf, Planned planned, ArrayList conditions, AttributeSet used, Joins joins) {
    if (planned.guards()) conditions = guarded(conditions);
    if (planned.rows() == null) {
      HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
      return filtered(conditions, joins.read(scan(leaf, relation, planned), new ArrayList()));
    }
    // the optimizer cannot run on a part of a query that refers to a common table expression outside of it
    ArrayList inside = new ArrayList();
    ArrayList outside = new ArrayList();
    for (int i = 0; i < conditions.size(); i++) {
      boolean refers = ((Expression) conditions.get(i)).containsPattern(TreePattern$.MODULE$.CTE());
      (refers ? outside : inside).add(conditions.get(i));
    }
    return filtered(outside, joins.read(optimised(filtered(inside, rows(leaf, planned, used))), inside));
  }

  /** The schema of the columns that the query uses, as JSON; of all, if it uses none. */
  private static String used(LogicalRelation leaf, AttributeSet used) {
    StructType schema = new StructType();
    for (Iterator columns = leaf.output().iterator(); columns.hasNext(); ) {
      Attribute column = (Attribute) columns.next();
      if (used.contains(column)) schema = schema.add(column.name(), column.dataType(), column.nullable(), column.metadata());
    }
    return (schema.isEmpty() ? leaf.schema() : schema).json();
  }

  /** The relation without unused generated columns: Spark would build the struct {@code _metadata} for each row, with all its fields. */
  private static LogicalRelation withoutUnused(LogicalRelation leaf, AttributeSet used) {
    ArrayList left = new ArrayList();
    for (Iterator columns = leaf.output().iterator(); columns.hasNext(); ) {
      Attribute column = (Attribute) columns.next();
      if (used.contains(column) || !column.metadata().contains(MADE_UP)) left.add(column);
    }
    if (left.size() == leaf.output().size()) return leaf;
    return leaf.copy(leaf.relation(), CollectionConverters.asScala(left).toSeq(), leaf.catalogTable(), leaf.isStreaming(), leaf.stream());
  }

  /**
   * Refuses a read of the change data feed for which Spark has found a relation of the table's rows in its cache: another thread may have
   * read the same name at that moment.
   */
  private static void checkOptions(scala.collection.immutable.Map options, Files files) {
    for (Iterator names = options.keysIterator(); names.hasNext(); ) {
      String name = (String) names.next();
      boolean isSwitch = name.equalsIgnoreCase("readChangeFeed") || name.equalsIgnoreCase("readChangeData");
      if (isSwitch && "true".equalsIgnoreCase((String) options.get(name).get()))
        throw new IllegalStateException("The change feed of " + files.table() + " was not found by its name. Create the DataFrame again.");
    }
  }

  private static ArrayList guarded(ArrayList conditions) {
    ArrayList each = new ArrayList();
    for (int i = 0; i < conditions.size(); i++) each.add(Guarded.of((Expression) conditions.get(i)));
    return each;
  }

  /** The plan with a filter by all of the conditions. */
  private static LogicalPlan filtered(ArrayList conditions, LogicalPlan plan) {
    if (conditions.isEmpty()) return plan;
    Expression all = (Expression) conditions.get(0);
    for (int i = 1; i < conditions.size(); i++) all = new And(all, (Expression) conditions.get(i));
    return new Filter(all, plan);
  }

  /** Adds the conjuncts of a condition to {@code parts}. */
  static void split(Expression condition, ArrayList parts) {
    if (condition instanceof And) {
      split(((And) condition).left(), parts);
      split(((And) condition).right(), parts);
    } else {
      parts.add(condition);
    }
  }

  private static LogicalPlan scan(LogicalRelation leaf, HadoopFsRelation relation, Planned planned) {
    Files files = planned.files(Files.of(leaf));
    scala.collection.immutable.Map options = planned.options(relation.options());
    Relation scan = new Relation(files, relation.dataSchema(), planned.format(), options, relation.sparkSession());
    return leaf.copy(scan, leaf.output(), Relation.labelled(leaf.catalogTable(), files.label()), leaf.isStreaming(), leaf.stream());
  }

  /** Python's plan for the rows, with the attributes of the relation that the query uses, by their expression ids. */
  private static LogicalPlan rows(LogicalRelation leaf, Planned planned, AttributeSet used) {
    LogicalPlan inner = ((org.apache.spark.sql.classic.Dataset) planned.rows()).queryExecution().analyzed();
    if (leaf.isStreaming()) inner = (LogicalPlan) inner.transformUp(new Streaming(leaf.stream()));
    ArrayList columns = new ArrayList();
    for (Iterator output = leaf.output().iterator(); output.hasNext(); ) {
      Attribute column = (Attribute) output.next();
      if (used.contains(column)) columns.add(column);
    }
    return Aliases.project(inner, columns, false);
  }

  /** Partial function over plans: marks scans as a part of a stream, so that Spark keeps state over them, and counts their rows. */
  private static class Streaming extends AbstractPartialFunction {
    private final Option stream;

    Streaming(Option stream) { this.stream = stream; }

    public boolean isDefinedAt(Object node) { return Files.of((LogicalPlan) node) != null; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      LogicalRelation leaf = (LogicalRelation) node;
      return leaf.copy(leaf.relation(), leaf.output(), leaf.catalogTable(), true, stream);
    }
  }

  /** The optimized plan, in which filters and columns reach the scans. Restores expression ids that the optimizer has changed. */
  private LogicalPlan optimised(LogicalPlan plan) {
    LogicalPlan best = (LogicalPlan) session.sessionState().optimizer().execute(plan);
    ArrayList restored = new ArrayList();
    Iterator got = best.output().iterator();
    for (Iterator wanted = plan.output().iterator(); wanted.hasNext(); ) {
      Attribute outer = (Attribute) wanted.next();
      Attribute inside = (Attribute) got.next();
      if (outer.exprId().equals(inside.exprId())) restored.add(inside);
      else restored.add(Aliases.of(inside, outer));
    }
    return new Project(CollectionConverters.asScala(restored).toSeq(), best);
  }

  /** Partial function over expressions: applies the rule to subqueries, some of which Spark adds late, such as runtime Bloom filters. */
  private class Subqueries extends AbstractPartialFunction {
    private final boolean inner;

    Subqueries(boolean inner) { this.inner = inner; }

    public boolean isDefinedAt(Object node) {
      return node instanceof PlanExpression && ((PlanExpression) node).plan() instanceof LogicalPlan;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      LogicalPlan before = (LogicalPlan) ((PlanExpression) node).plan();
      LogicalPlan after = Rewrite.this.apply(before, inner || before instanceof Subquery);
      // no scan takes such a filter, and a filter of rows cannot evaluate it
      if (node instanceof DynamicPruningSubquery && after != before && !after.deterministic()) return Literal$.MODULE$.TrueLiteral();
      return after == before ? node : ((PlanExpression) node).withNewPlan(after);
    }
  }
}
