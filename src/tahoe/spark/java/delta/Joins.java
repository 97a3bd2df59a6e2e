package delta;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.IntegerType$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.Metadata;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The joins of a query whose reads of Delta tables are planned. Python is told about them and chooses which scan leaves out files by the
 * keys of which other side; here the scans get the filters for it, see {@link MayHold}. Python: {@code joins.prunings}.
 */
class Joins {
  private final SparkSession session;
  private final Map reads = new IdentityHashMap();  // the plan of each read, and the Files of a scan in it
  private final Map conditions = new IdentityHashMap();  // the list of those that the plan of a read applies itself
  private final Map repeated = new IdentityHashMap();  // whether the plan of each read is twice in the query
  private final ArrayList joins = new ArrayList();
  private final Map chosen = new IdentityHashMap();  // for a Join, the list of its Choices
  private final Map filters = new IdentityHashMap();  // for the plan of a read, the list of its Filters
  private final Set filtered = Collections.newSetFromMap(new IdentityHashMap());  // the joins whose filters are among these

  Joins(SparkSession session) { this.session = session; }

  /** Remembers the plan of a read, which applies these conditions. No join is looked for under it. */
  LogicalPlan read(LogicalPlan plan, List applied) {
    conditions.put(plan, applied);
    for (Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
      Files files = Files.of((LogicalPlan) leaves.next());
      if (files != null) reads.put(plan, files);
    }
    return plan;
  }

  /** Whether a node is the plan of a read; also of one in a subquery that Spark has optimized before, and made a join of. */
  private boolean isRead(LogicalPlan node) {
    Files files = reads.containsKey(node) ? null : Files.of(node);
    if (files != null && files.planned()) reads.put(node, files);
    return reads.containsKey(node);
  }

  /** The plan with filters in the scans that Python has chosen. */
  LogicalPlan pruned(LogicalPlan plan) {
    if (plan.isStreaming()) return plan;
    count(plan);
    collect(plan);
    if (joins.isEmpty()) return plan;
    String answer = (String) Ask.answer(Ask.python.joins(session, new JoinFacts(reads, conditions).json(joins)));
    if (answer.isEmpty()) return plan;
    String[] choices = answer.split("\n");
    for (int i = 0; i < choices.length; i++) choose(choices[i].split("\u0000"));
    return placed(plan);
  }

  // --- what is found

  /** A join with equalities. */
  static class Joined {
    final Join join;
    final ArrayList keys = new ArrayList();

    Joined(Join join) { this.join = join; }

    LogicalPlan side(int side) { return side == 0 ? join.left() : join.right(); }
  }

  /** An equality of the left with the right side, and the ends of both: expressions in reads that have the key's values. */
  static class Key {
    final Expression[] sides;
    final boolean nullSafe;
    final ArrayList[] ends = {new ArrayList(), new ArrayList()};

    Key(Expression left, Expression right, boolean nullSafe) {
      this.sides = new Expression[] {left, right};
      this.nullSafe = nullSafe;
    }
  }

  /** Where a key comes from: the plan of a read, an expression over its columns, and the nodes from the join down to it. */
  static class End {
    final LogicalPlan read;
    final Expression expression;
    final List steps;

    End(LogicalPlan read, Expression expression, List steps) {
      this.read = read;
      this.expression = expression;
      this.steps = steps;
    }
  }

  /** Notes which reads are in the query twice. */
  private void count(LogicalPlan node) {
    if (isRead(node)) repeated.put(node, Boolean.valueOf(repeated.containsKey(node)));
    else for (Iterator it = node.children().iterator(); it.hasNext(); ) count((LogicalPlan) it.next());
  }

  /** Finds the joins beneath a node. Spark analyses the parts of a recursion again in each round, and knows no pruning by keys then. */
  private void collect(LogicalPlan node) {
    if (isRead(node) || node.nodeName().equals("UnionLoop")) return;
    for (Iterator it = node.children().iterator(); it.hasNext(); ) collect((LogicalPlan) it.next());
    if (!(node instanceof Join) || ((Join) node).condition().isEmpty()) return;
    Joined joined = new Joined((Join) node);
    boolean reaches = false;
    ArrayList parts = new ArrayList();
    Rewrite.split((Expression) ((Join) node).condition().get(), parts);
    for (int i = 0; i < parts.size(); i++) {
      Key key = key(joined, (Expression) parts.get(i));
      if (key == null) continue;
      joined.keys.add(key);
      for (int side = 0; side < 2; side++) {
        trace(key.sides[side], joined.side(side), new ArrayList(), key.ends[side]);
        reaches |= !key.ends[side].isEmpty();
      }
    }
    if (reaches) joins.add(joined);
  }

  private static Key key(Joined joined, Expression part) {
    if (!(part instanceof EqualTo) && !(part instanceof EqualNullSafe)) return null;
    BinaryComparison equality = (BinaryComparison) part;
    Expression one = (Expression) equality.left();
    Expression other = (Expression) equality.right();
    boolean nullSafe = part instanceof EqualNullSafe;
    if (isOf(one, joined.join.left()) && isOf(other, joined.join.right())) return new Key(one, other, nullSafe);
    return isOf(other, joined.join.left()) && isOf(one, joined.join.right()) ? new Key(other, one, nullSafe) : null;
  }

  private static boolean isOf(Expression expression, LogicalPlan plan) {
    return !expression.references().isEmpty() && expression.references().subsetOf(plan.outputSet());
  }

  /**
   * Finds the ends of a key beneath a node. Python decides whether each step from node to node may be taken. A read that is twice in the
   * query is no end: in the other place all of its rows may be needed.
   */
  private void trace(Expression key, LogicalPlan node, List steps, ArrayList ends) {
    if (isRead(node)) {
      if (!((Boolean) repeated.get(node)).booleanValue()) ends.add(new End(node, key, steps));
      return;
    }
    for (int i = 0; i < node.children().size(); i++) {
      LogicalPlan child = (LogicalPlan) node.children().apply(i);
      Expression below = below(key, node, child);
      if (!isOf(below, child)) continue;
      ArrayList further = new ArrayList(steps);
      further.add(JoinFacts.step(node, i, below));
      trace(below, child, further, ends);
    }
  }

  private static Expression below(Expression key, LogicalPlan node, LogicalPlan child) {
    if (node instanceof Project) return (Expression) key.transform(new Question.Inlined(((Project) node).projectList()));
    if (node instanceof Aggregate) return (Expression) key.transform(new Question.Inlined(((Aggregate) node).aggregateExpressions()));
    if (!(node instanceof Union)) return key;
    ArrayList columns = new ArrayList();
    for (int i = 0; i < node.output().size(); i++)
      columns.add(Aliases.of((Attribute) child.output().apply(i), (Attribute) node.output().apply(i)));
    return (Expression) key.transform(new Question.Inlined(seq(columns)));
  }

  // --- what is chosen

  private static class Choice {
    final Key key;
    final int side;
    final End end;
    final String keys;
    final String column;
    final String name;
    final int mostKeys;

    Choice(Key key, int side, End end, String keys, String column, String name, int mostKeys) {
      this.key = key;
      this.side = side;
      this.end = end;
      this.keys = keys;
      this.column = column;
      this.name = name;
      this.mostKeys = mostKeys;
    }
  }

  /** A line of Python's answer, see {@code joins.prunings}. */
  private void choose(String[] fields) {
    Joined joined = (Joined) joins.get(Integer.parseInt(fields[0]));
    Key key = (Key) joined.keys.get(Integer.parseInt(fields[1]));
    int side = Arrays.asList(JoinFacts.SIDES).indexOf(fields[2]);
    End end = (End) key.ends[side].get(Integer.parseInt(fields[3]));
    if (!chosen.containsKey(joined.join)) chosen.put(joined.join, new ArrayList());
    ((List) chosen.get(joined.join)).add(new Choice(key, side, end, fields[4], fields[5], fields[6], Integer.parseInt(fields[7])));
  }

  /**
   * The plan with its filters. At a join, the side that has the keys comes first: it becomes a part of the filters of the other side. All
   * choices of a join are of one key. Those of the side that has the keys are for its second reading, after a query of its own for them.
   */
  private LogicalPlan placed(LogicalPlan node) {
    if (isRead(node)) {
      List found = (List) filters.get(node);
      return found == null ? node : (LogicalPlan) node.transformUp(new Filtered(found));
    }
    List choices = (List) chosen.get(node);
    if (choices == null) {
      ArrayList children = new ArrayList();
      for (Iterator it = node.children().iterator(); it.hasNext(); ) children.add(placed((LogicalPlan) it.next()));
      return (LogicalPlan) node.withNewChildren(seq(children));
    }
    int pruned = ((Choice) choices.get(0)).side;
    LogicalPlan[] sides = new LogicalPlan[2];
    sides[1 - pruned] = placed((LogicalPlan) node.children().apply(1 - pruned));
    if (filtered.add(node) && filter((Join) node, choices, sides[1 - pruned]))
      sides[1 - pruned] = placed((LogicalPlan) node.children().apply(1 - pruned));
    sides[pruned] = placed((LogicalPlan) node.children().apply(pruned));
    return (LogicalPlan) node.withNewChildren(seq(Arrays.asList((Object[]) sides)));
  }

  /** Adds the filters of a join to those of its reads. Returns whether the side that has the keys gets some, too. */
  private boolean filter(Join join, List choices, LogicalPlan withKeys) {
    Choice first = (Choice) choices.get(0);
    Expression keys = keys(join, first, withKeys);
    boolean isOfBoth = false;
    for (int i = 0; i < choices.size(); i++) {
      Choice choice = (Choice) choices.get(i);
      isOfBoth |= choice.side != first.side;
      if (!filters.containsKey(choice.end.read)) filters.put(choice.end.read, new ArrayList());
      ((List) filters.get(choice.end.read)).add(new Object[] {keys, choice});
    }
    return isOfBoth;
  }

  /**
   * Spark's subquery for the keys of a side. It takes them from the broadcast of the join if the join has one; otherwise, unless the
   * choice is {@code broadcast}, from a query of its own. With {@code own} it takes one more than {@code mostKeys} at most.
   */
  private static Expression keys(Join join, Choice choice, LogicalPlan plan) {
    int side = 1 - choice.side;
    Expression key = choice.key.sides[side];
    Option found = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    Product parts = found.isEmpty() ? null : (Product) found.get();
    Seq[] both = {parts == null ? none() : (Seq) parts.productElement(1), parts == null ? none() : (Seq) parts.productElement(2)};
    int place = place(both, choice.key);
    Seq keys = both[side];
    LogicalPlan query = plan;
    if (place < 0 || choice.keys.equals("own")) {
      Alias named = Aliases.named(key, "key");
      keys = seq(Arrays.asList(new Object[] {named.toAttribute()}));
      LogicalPlan narrow = new Project(seq(Arrays.asList(new Object[] {named})), plan);
      Object distinct = Cases.built("org.apache.spark.sql.catalyst.plans.logical.Aggregate", Arrays.asList(new Object[] {keys, keys, narrow}));
      Literal limit = new Literal(Integer.valueOf(choice.mostKeys + 1), IntegerType$.MODULE$);
      query = new GlobalLimit(limit, new LocalLimit(limit, (LogicalPlan) distinct));
      place = 0;
    }
    Seq places = seq(Arrays.asList(new Object[] {Integer.valueOf(place)}));
    Object[] fields = {new Literal(null, key.dataType()), query, keys, places, Boolean.valueOf(choice.keys.equals("broadcast"))};
    return (Expression) Cases.built("org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery", Arrays.asList(fields));
  }

  /** The place of a key among those by which Spark joins; -1 if Spark joins by another expression. */
  private static int place(Seq[] both, Key key) {
    for (int i = 0; i < both[0].size(); i++) {
      boolean isLeft = ((Expression) both[0].apply(i)).semanticEquals(key.sides[0]);
      if (isLeft && ((Expression) both[1].apply(i)).semanticEquals(key.sides[1])) return i;
    }
    return -1;
  }

  private static Seq none() { return seq(new ArrayList()); }

  private static Seq seq(List items) { return CollectionConverters.asScala(items).toSeq(); }

  /** Partial function over plans: filters the scans of Delta tables by the keys of joins. */
  private static class Filtered extends AbstractPartialFunction {
    private final List filters;

    Filtered(List filters) { this.filters = filters; }

    public boolean isDefinedAt(Object node) { return Files.of((LogicalPlan) node) != null; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      LogicalRelation leaf = withOrdinals((LogicalRelation) node);
      Attribute place = (Attribute) leaf.output().last();
      Expression all = null;
      for (int i = 0; i < filters.size(); i++) {
        Object[] filter = (Object[]) filters.get(i);
        Choice choice = (Choice) filter[1];
        Expression mayHold = new MayHold(place, (Expression) filter[0], Files.of(leaf), choice.column, choice.name, choice.mostKeys);
        all = all == null ? mayHold : new And(all, mayHold);
      }
      return new Project((Seq) ((LogicalRelation) node).output(), new Filter(all, leaf));
    }

    /** A scan whose last column tells its files apart. That of a subquery which Spark has optimized before may have this column. */
    private static LogicalRelation withOrdinals(LogicalRelation leaf) {
      if (Files.of(leaf).hasOrdinals()) return leaf;
      HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
      Files files = Files.of(leaf).withOrdinals();
      AttributeReference place = new AttributeReference(
          Files.FILE_ORDINAL, LongType$.MODULE$, true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), none());
      Relation scanned = new Relation(files, relation.dataSchema(), relation.fileFormat(), relation.options(), relation.sparkSession());
      return leaf.copy(scanned, (Seq) leaf.output().appended(place), leaf.catalogTable(), leaf.isStreaming(), leaf.stream());
    }
  }
}
