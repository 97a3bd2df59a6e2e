package delta;

import java.io.IOException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionDef;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionRef;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MetadataAttribute$;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint$;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The condition of a statement on rows of its table that Python reads: row by row, as expressions; or by a query, if only that can evaluate
 * it. As a partial function over expressions, it makes the condition one that can be evaluated here. It is Java because expressions and
 * plans are Spark's. Python: {@code row_conditions.RowCondition}.
 */
public class Condition extends AbstractPartialFunction {
  /** Why a condition is not evaluated: names in {@code row_conditions.COUNTS_AS_TRUE}. */
  static final String SOURCE = "source", ORDER = "order", METADATA = "metadata", FAILS = "error";

  private static final String INDEX = "__tahoe_index";

  private final SparkSession session;
  private final LogicalPlan rows;  // the table's: projections over a scan of it
  private final Expression condition;
  private final LogicalPlan source;  // of a MERGE; null for a filter
  private final HashMap definitions = new HashMap();  // the columns that projections compute, by id
  private final HashMap scanned = new HashMap();  // the columns of the scan, by id
  private final LinkedHashMap columns = new LinkedHashMap();  // of these the ones that the condition needs
  private final HashMap common = new HashMap();  // expressions that are named inside of the condition, by their id
  private final Expression bound;  // null if only a query can evaluate it
  private final Expression needed;  // what must hold where the query finds a row; null if that is not known
  private int queries = 0;

  private Condition(SparkSession session, LogicalPlan rows, Expression condition, LogicalPlan source, int mostMembers) {
    this.session = session;
    this.rows = rows;
    this.condition = condition;
    this.source = source;
    define(rows);
    require(condition.references());
    Expression keys = source == null ? condition : keys(mostMembers);
    Expression evaluated = keys == null ? null : (Expression) keys.transform(this);
    if (evaluated != null && needsQuery(evaluated)) evaluated = null;
    boolean isWhole = source == null || condition instanceof EqualTo;
    bound = isWhole ? evaluated : null;
    needed = isWhole ? null : evaluated;
  }

  /** Of a MERGE's condition: that a row of the table has one of the source's keys; null if it has no keys, or too many. */
  private Expression keys(int most) {
    ArrayList parts = new ArrayList();
    Rewrite.split(condition, parts);
    for (java.util.Iterator it = parts.iterator(); it.hasNext(); ) {
      Object part = it.next();
      if (!(part instanceof EqualTo) || !((Expression) part).deterministic()) continue;
      Expression left = ((EqualTo) part).left(), right = ((EqualTo) part).right();
      Expression theirs = isOfSource(left) ? left : right, ours = theirs == left ? right : left;
      if (!isOfSource(theirs) || ours.references().intersect(source.outputSet()).nonEmpty()) continue;
      ArrayList key = new ArrayList();
      key.add(Aliases.named(theirs, INDEX));
      Expression among = Reread.among(session, ours, new Project(seq(key), source), most);
      if (among != null) return among;
    }
    return null;
  }

  private boolean isOfSource(Expression expression) {
    return expression.references().nonEmpty() && expression.references().subsetOf(source.outputSet());
  }

  /**
   * The condition of a filter.
   *
   * @param executed a query that found the statement's rows, or null: the subqueries read what it has read
   * @param mostMembers a subquery of IN with more results stays a query
   */
  public static Condition of(SparkSession session, LogicalPlan filtered, Dataset executed, int mostMembers) {
    if (!(filtered instanceof Filter))  // it hides a column again
      return of(session, (LogicalPlan) filtered.children().head(), executed, mostMembers);
    Filter filter = (Filter) filtered;
    Map versions = executed == null ? new HashMap() : Versions.read(executed);
    Expression condition = (Expression) filter.condition().transform(new Reread(session, versions, mostMembers));
    return new Condition(session, filter.child(), condition, null, mostMembers);
  }

  /** The condition that a row of the source, which has the same rows each time, matches. {@code mostMembers}: of its keys, too. */
  public static Condition of(SparkSession session, LogicalPlan rows, LogicalPlan source, Expression on, int mostMembers) {
    Expression condition = (Expression) on.transform(new Reread(session, new HashMap(), mostMembers));
    return new Condition(session, rows, condition, source, mostMembers);
  }

  private void define(LogicalPlan plan) {
    if (plan instanceof Project || plan instanceof SubqueryAlias) {
      for (Iterator it = plan.expressions().iterator(); it.hasNext(); ) {
        Object named = it.next();
        if (named instanceof Alias) definitions.put(((Alias) named).exprId(), ((Alias) named).child());
      }
      define((LogicalPlan) plan.children().head());
      return;
    }
    for (Iterator it = plan.output().iterator(); it.hasNext(); ) {
      Attribute column = (Attribute) it.next();
      scanned.put(column.exprId(), column);
    }
  }

  /** Note the columns of the scan that an expression needs. */
  private void require(AttributeSet references) {
    for (Iterator it = references.iterator(); it.hasNext(); ) {
      Attribute column = (Attribute) it.next();
      Expression definition = (Expression) definitions.get(column.exprId());
      if (definition != null) require(definition.references());
      if (!scanned.containsKey(column.exprId())) continue;
      if (MetadataAttribute$.MODULE$.isValid(column.metadata())) throw new UnsupportedOperationException(METADATA);
      columns.put(column.exprId(), scanned.get(column.exprId()));
    }
  }

  private static boolean needsQuery(Expression expression) {
    if (expression instanceof Unevaluable) return true;
    for (Iterator children = expression.children().iterator(); children.hasNext(); )
      if (needsQuery((Expression) children.next())) return true;
    return false;
  }

  /** Whether an evaluation may be a query, which takes longer than a fast writer needs for its next commit. */
  public boolean mayQuery() { return bound == null; }

  public int queries() { return queries; }

  /** The names of the columns that {@link #matching} takes, in this order, with NUL between them. */
  public String columns() {
    ArrayList names = new ArrayList();
    for (java.util.Iterator it = columns.values().iterator(); it.hasNext(); ) names.add(((Attribute) it.next()).name());
    return String.join("\0", names);
  }

  /** The indexes of the rows for which the condition is true, as the bits of a {@link BitSet}. */
  public byte[] matching(Object message) throws IOException {
    if (bound != null) return where(bound, message).toByteArray();
    BitSet found = new BitSet();
    if (needed == null || !where(needed, message).isEmpty()) {
      queries++;
      for (java.util.Iterator it = Dataset$.MODULE$.ofRows(session, query(message)).collectAsList().iterator(); it.hasNext(); )
        found.set((int) ((Row) it.next()).getLong(0));
    }
    return found.toByteArray();
  }

  private static BitSet where(final Expression evaluated, Object message) throws IOException {
    final BitSet found = new BitSet();
    Answered.each(message, new Answered.Each() {
      private int index = 0;

      public void row(InternalRow row) {
        if (Boolean.TRUE.equals(evaluated.eval(row))) found.set(index);
        index++;
      }
    });
    return found;
  }

  // by a query

  /** The query of the indexes of the rows for which the condition is true. */
  private LogicalPlan query(Object message) throws IOException {
    Alias number = Aliases.named(new Literal(Long.valueOf(0), LongType$.MODULE$), INDEX);
    Attribute index = number.toAttribute();
    ArrayList output = new ArrayList(columns.values());
    output.add(index);
    LogicalPlan local = new LocalRelation(seq(output), seq(local(message, output)), false, Option.empty());
    LogicalPlan given = with(rows, local, index);
    LogicalPlan found = source == null
        ? (LogicalPlan) new Filter(condition, given)
        : (LogicalPlan) new Join(given, source, LeftSemi$.MODULE$, Option.apply(condition), JoinHint$.MODULE$.NONE());
    ArrayList selected = new ArrayList();
    selected.add(index);
    return new Project(seq(selected), found);
  }

  private static ArrayList local(Object message, ArrayList output) throws IOException {
    StructType schema = DataTypeUtils.fromAttributes(seq(output));
    final UnsafeProjection projection = UnsafeProjection$.MODULE$.create(schema);
    final ArrayList local = new ArrayList();
    Answered.each(message, new Answered.Each() {
      public void row(InternalRow row) {
        InternalRow index = new GenericInternalRow(new Object[] { Long.valueOf(local.size()) });
        local.add(projection.apply(new JoinedRow(row, index)).copy());
      }
    });
    return local;
  }

  /** The table's rows as the statement sees them, computed from local rows instead of the scan; and their index. */
  private LogicalPlan with(LogicalPlan plan, LogicalPlan local, Attribute index) {
    ArrayList output = new ArrayList();
    if (plan instanceof SubqueryAlias) {
      output.add(with(((SubqueryAlias) plan).child(), local, index));
      return (LogicalPlan) plan.withNewChildren(seq(output));
    }
    if (plan instanceof Project) {
      output.addAll(CollectionConverters.asJava(((Project) plan).projectList()));
      output.add(index);
      return new Project(seq(output), with(((Project) plan).child(), local, index));
    }
    for (Iterator it = plan.output().iterator(); it.hasNext(); ) {
      Attribute column = (Attribute) it.next();
      Object nothing = columns.containsKey(column.exprId()) ? null : new Literal(null, column.dataType());
      output.add(nothing == null ? (Object) column : Aliases.of((Expression) nothing, column.name(), column.exprId()));
    }
    output.add(index);
    return new Project(seq(output), local);
  }

  private static Seq seq(Collection items) { return CollectionConverters.asScala(items).toSeq(); }

  // row by row

  public boolean isDefinedAt(Object node) {
    return node instanceof RuntimeReplaceable
        || node instanceof With
        || node instanceof CommonExpressionRef
        || node instanceof AttributeReference;
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
    for (Iterator defs = ((With) node).defs().iterator(); defs.hasNext(); ) {
      CommonExpressionDef def = (CommonExpressionDef) defs.next();
      common.put(def.id(), def.child());
    }
    return ((With) node).child();
  }

  private Object column(AttributeReference reference) {
    Object definition = definitions.get(reference.exprId());
    if (definition != null) return definition;
    int place = new ArrayList(columns.keySet()).indexOf(reference.exprId());
    return new BoundReference(place, reference.dataType(), true);
  }
}
