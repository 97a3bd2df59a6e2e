package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Builds DataFrames from many columns in one call, for {@code reading.scan}, {@code reading.deletion_vectors} and {@code plans}. It is Java
 * because a call through py4j for each column takes longer than Spark's work on it.
 */
public class Rows {
  private Rows() { }

  /** All rows of a relation, as a user reads them. */
  public static Dataset all(Relation relation) {
    return Dataset$.MODULE$.ofRows((SparkSession) relation.sparkSession(), relation.leaf(false));
  }

  /** All rows of a relation, as a batch of a stream. */
  public static Dataset streamed(Relation relation) {
    return Dataset$.MODULE$.ofRows((SparkSession) relation.sparkSession(), relation.leaf(true));
  }

  /**
   * The rows of a planned relation, for a session that need not be the relation's.
   *
   * @param first SQL expressions, separated by NUL, with other names or further columns for {@code columns}; they have their values for every
   *     row that the scan reads, whatever uses them. Empty for the columns of the relation.
   * @param columns SQL expressions, separated by NUL
   */
  public static Dataset scanned(SparkSession session, Relation relation, String first, String columns) throws ParseException {
    LogicalPlan scan = relation.scan();
    return of(session, columns, first.isEmpty() ? scan : new Project(parsed(session, first.split("\u0000")), scan));
  }

  /** Columns of rows. {@code columns} are SQL expressions, separated by NUL. */
  public static Dataset expressed(Dataset rows, String columns) throws ParseException {
    return of(((org.apache.spark.sql.classic.Dataset) rows).sparkSession(), columns, plan(rows));
  }

  /**
   * Columns of rows.
   *
   * @param columns for each column, {@code =} with a new name, or nothing to keep the name; and where it comes from: {@code .} with a name,
   *     {@code #} with an expression id, or nothing for the next one of {@code computed}; all separated by NUL
   */
  public static Dataset projected(Dataset rows, String columns, List computed) {
    SparkSession session = ((org.apache.spark.sql.classic.Dataset) rows).sparkSession();
    HashMap attributes = new HashMap();
    for (Iterator it = plan(rows).output().iterator(); it.hasNext(); ) {
      Attribute attribute = (Attribute) it.next();
      attributes.putIfAbsent(String.valueOf(attribute.exprId().id()), attribute);
    }
    java.util.Iterator next = computed.iterator();
    String[] parts = columns.split("\u0000", -1);
    ArrayList found = new ArrayList();
    for (int i = 0; i + 1 < parts.length; i += 2) {
      Expression value = source(parts[i + 1], attributes, session, next);
      found.add(parts[i].isEmpty() ? value : Aliases.named(value, parts[i].substring(1)));
    }
    return Dataset$.MODULE$.ofRows(session, new Project(CollectionConverters.asScala(found).toSeq(), plan(rows)));
  }

  private static Expression source(String text, HashMap attributes, SparkSession session, java.util.Iterator computed) {
    if (text.isEmpty()) return session.expression((Column) computed.next());
    String key = text.substring(1);
    if (text.charAt(0) == '.') return new UnresolvedAttribute(CollectionConverters.asScala(Collections.singletonList(key)).toSeq());
    Expression found = (Expression) attributes.get(key);
    if (found == null) throw new IllegalArgumentException("The rows have no column with the id " + key);
    return found;
  }

  /** The columns of a plan: expression id and name of each, all separated by NUL. */
  public static String columns(LogicalPlan plan) { return text(plan.output().iterator()); }

  /** The columns that the nodes above a join reference, as by {@code columns}. */
  public static String referencesAboveJoin(LogicalPlan plan) {
    StringBuilder found = new StringBuilder();
    for (; !(plan instanceof Join); plan = (LogicalPlan) plan.children().apply(0)) found.append(text(plan.references().iterator()));
    return found.toString();
  }

  private static String text(Iterator attributes) {
    StringBuilder found = new StringBuilder();
    while (attributes.hasNext()) {
      Attribute attribute = (Attribute) attributes.next();
      found.append(attribute.exprId().id()).append('\u0000').append(attribute.name()).append('\u0000');
    }
    return found.toString();
  }

  /** The attributes of a plan with the names, types and metadata of a schema. */
  public static Seq renamed(Seq attributes, StructType schema) {
    StructField[] fields = schema.fields();
    if (fields.length != attributes.length()) throw new IllegalArgumentException(attributes + " are not the columns of " + schema);
    ArrayList found = new ArrayList();
    Iterator it = attributes.iterator();
    for (int i = 0; i < fields.length; i++) {
      Attribute attribute = (Attribute) it.next();
      StructField field = fields[i];
      found.add(new AttributeReference(
        field.name(), field.dataType(), field.nullable(), field.metadata(), attribute.exprId(), attribute.qualifier()
      ));
    }
    return CollectionConverters.asScala(found).toSeq();
  }

  /**
   * The rows for which a condition holds.
   *
   * @param name the column in the condition that is replaced with {@code value} as a scalar subquery
   * @param columns SQL expressions, separated by NUL
   */
  public static Dataset where(Dataset rows, String condition, String name, Dataset value, String columns) throws ParseException {
    SparkSession session = ((org.apache.spark.sql.classic.Dataset) rows).sparkSession();
    Expression keep = (Expression) parsed(session, condition).transform(new Replaced(name, plan(value)));
    return of(session, columns, new Filter(keep, plan(rows)));
  }

  /**
   * The rows whose key is among some keys, or is not. The keys are broadcast.
   *
   * @param key of a row, as SQL
   * @param keys of one column
   * @param among whether the rows with one of the keys are left, else those with none
   * @param columns SQL expressions, separated by NUL
   */
  public static Dataset byKeys(Dataset rows, String key, Dataset keys, boolean among, String columns) throws ParseException {
    SparkSession session = ((org.apache.spark.sql.classic.Dataset) rows).sparkSession();
    LogicalPlan right = plan(keys);
    Expression equal = new EqualTo(parsed(session, key), (Expression) right.output().head());
    JoinHint hint = new JoinHint(Option.empty(), Option.apply(new HintInfo(Option.apply(BROADCAST$.MODULE$))));
    JoinType type = among ? (JoinType) LeftSemi$.MODULE$ : (JoinType) LeftAnti$.MODULE$;
    return of(session, columns, new Join(plan(rows), right, type, Option.apply(equal), hint));
  }

  private static Dataset of(SparkSession session, String columns, LogicalPlan from) throws ParseException {
    String[] texts = columns.isEmpty() ? new String[0] : columns.split("\u0000");
    return Dataset$.MODULE$.ofRows(session, new Project(parsed(session, texts), from));
  }

  private static Seq parsed(SparkSession session, String[] texts) throws ParseException {
    ArrayList expressions = new ArrayList();
    for (int i = 0; i < texts.length; i++) expressions.add(parsed(session, texts[i]));
    return CollectionConverters.asScala(expressions).toSeq();
  }

  private static Expression parsed(SparkSession session, String text) throws ParseException {
    return session.sessionState().sqlParser().parseExpression(text);
  }

  private static LogicalPlan plan(Dataset rows) { return ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().analyzed(); }

  /** Partial function over expressions: replaces a column with a scalar subquery. */
  private static class Replaced extends AbstractPartialFunction {
    private final String name;
    private final LogicalPlan value;

    Replaced(String name, LogicalPlan value) {
      this.name = name;
      this.value = value;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof UnresolvedAttribute && ((UnresolvedAttribute) node).name().equals(name);
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      return Cases.built("org.apache.spark.sql.catalyst.expressions.ScalarSubquery", Collections.singletonList(value));
    }
  }
}
