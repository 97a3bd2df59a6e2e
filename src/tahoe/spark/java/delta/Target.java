package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MetadataAttribute$;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.expressions.objects.LambdaVariable;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.ExpressionUtils$;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The table that a resolved DELETE, UPDATE or MERGE changes: named directly, by its path, or through a view that only selects and renames
 * columns. The statement's expressions refer to the table's columns by the expression ids of this target.
 */
public class Target {
  /** The first character of a constant that stands for a column of the target; the column's expression id and names of fields follow. */
  static final String IDENTITY = "\u0001";

  private final String url;
  private final ArrayList columns;  // the attributes that the statement sees, with the names of the table's columns
  private final HashMap names;  // the table's column names by expression id, of these attributes and of those beneath a view

  private Target(String url, ArrayList columns, HashMap names) {
    this.url = url;
    this.columns = columns;
    this.names = names;
  }

  public String url() { return url; }

  /** The target of a statement; null if the plan is not a Delta table, or does more than select and rename its columns. */
  public static Target of(LogicalPlan plan) {
    HashMap names = new HashMap();
    String url = url(plan, names);
    if (url == null) return null;
    ArrayList columns = new ArrayList();
    HashSet seen = new HashSet();
    for (Iterator output = plan.output().iterator(); output.hasNext(); ) {
      Attribute attribute = (Attribute) output.next();
      String name = (String) names.get(attribute.exprId());
      if (name == null || !seen.add(name)) return null;
      columns.add(attribute.withName(name));
    }
    return new Target(url, columns, names);
  }

  private static String url(LogicalPlan plan, HashMap names) {
    if (plan instanceof SubqueryAlias) return url(((SubqueryAlias) plan).child(), names);
    if (plan instanceof View) return url(((View) plan).child(), names);
    if (plan instanceof Project) return renamed((Project) plan, names);
    for (Iterator output = plan.output().iterator(); output.hasNext(); ) {
      Attribute attribute = (Attribute) output.next();
      names.put(attribute.exprId(), attribute.name());
    }
    if (plan instanceof DataSourceV2Relation) {
      Object table = ((DataSourceV2Relation) plan).table();
      return table instanceof WriteTable && !(table instanceof Staged) ? ((WriteTable) table).url() : null;
    }
    Files files = plan instanceof LogicalRelation ? Files.of(plan) : null;
    return files == null || files instanceof Changes || files.pinned() || files.planned() ? null : files.table();
  }

  private static String renamed(Project project, HashMap names) {
    String url = url(project.child(), names);
    for (Iterator columns = project.projectList().iterator(); columns.hasNext(); ) {
      Object column = columns.next();
      if (column instanceof Attribute) continue;
      Expression of = column instanceof Alias ? ((Alias) column).child() : null;
      if (of instanceof Cast && ((Cast) of).child().dataType().equals(of.dataType())) of = ((Cast) of).child();
      if (of != null && pads(of)) of = (Expression) of.references().head();
      if (!(of instanceof Attribute)) return null;
      names.put(((Alias) column).exprId(), names.get(((Attribute) of).exprId()));
    }
    return url;
  }

  /** Whether an expression is Spark's padding of a column of type CHAR, or of one with such fields, to its length. */
  private static boolean pads(Expression expression) {
    if (expression instanceof StaticInvoke && ((StaticInvoke) expression).functionName().equals("readSidePadding")) return true;
    for (Iterator children = expression.children().iterator(); children.hasNext(); )
      if (pads((Expression) children.next())) return true;
    return false;
  }

  /** Whether a plan reads a Delta table. */
  public static boolean isOfOurs(LogicalPlan plan) {
    for (Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
      LogicalPlan leaf = (LogicalPlan) leaves.next();
      if (Files.of(leaf) != null || url(leaf, new HashMap()) != null) return true;
    }
    return false;
  }

  /** The fields of the metadata column that the statement's expressions use, such as file_path. */
  public ArrayList metadata() {
    ArrayList names = new ArrayList();
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.get(i);
      if (!MetadataAttribute$.MODULE$.isValid(column.metadata())) continue;
      for (String name : ((StructType) column.dataType()).fieldNames()) names.add(name);
    }
    return names;
  }

  /**
   * Rows of the table with the expression ids that the statement uses; null if the table no longer has the columns that the statement was
   * analysed with. Nullability may differ, because Spark reads every column as nullable.
   */
  public Dataset rows(Dataset rows) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().analyzed();
    Map found = Aliases.byName(plan);
    for (int i = 0; i < columns.size(); i++) {
      Attribute seen = (Attribute) columns.get(i);
      Attribute now = (Attribute) found.get(seen.name());
      if (now == null || !DataTypeUtils.sameType(seen.dataType(), now.dataType())) return null;
    }
    return Dataset$.MODULE$.ofRows(
        ((org.apache.spark.sql.classic.Dataset) rows).sparkSession(), Aliases.project(plan, columns, true));
  }

  // assignments

  /**
   * The path of each assignment's column, its names joined by zero characters; null for {@link Merges#STAR}. A path that begins with an
   * empty name means that the assignment is not to a column or a struct field. In a MERGE the columns are constants or variables, see {@link Merges}.
   */
  public ArrayList paths(Seq assignments) {
    ArrayList paths = new ArrayList();
    for (Iterator it = assignments.iterator(); it.hasNext(); ) {
      Expression key = ((Assignment) it.next()).key();
      if (key instanceof LambdaVariable) paths.add(pathIn(((LambdaVariable) key).name()));
      else if (key instanceof Literal) paths.add(((Literal) key).value() == null ? null : pathIn(((Literal) key).value().toString()));
      else paths.add(path(key));
    }
    return paths;
  }

  /** The path in a constant. Spark may have given a new id to a padded CHAR column since; {@code names} still has the old one. */
  private String pathIn(String path) {
    if (!path.startsWith(IDENTITY)) return path;
    int end = path.indexOf('\u0000') < 0 ? path.length() : path.indexOf('\u0000');
    for (java.util.Iterator it = names.entrySet().iterator(); it.hasNext(); ) {
      Map.Entry column = (Map.Entry) it.next();
      if (String.valueOf(((ExprId) column.getKey()).id()).equals(path.substring(1, end))) return column.getValue() + path.substring(end);
    }
    throw new IllegalStateException("the target of a statement no longer has the column with id " + path.substring(1, end));
  }

  private String path(Expression key) {
    if (key instanceof GetStructField) {
      GetStructField field = (GetStructField) key;
      return path(field.child()) + "\u0000" + field.childSchema().fields()[field.ordinal()].name();
    }
    for (int i = 0; key instanceof Attribute && i < columns.size(); i++) {
      Attribute column = (Attribute) columns.get(i);
      if (column.exprId().equals(((Attribute) key).exprId())) return column.name();
    }
    return "\u0000" + key.sql();
  }

  /**
   * The assigned values as the user wrote them, as Columns: the casts, null checks and length checks that Spark's analysis adds to an
   * assigned value are removed, and store assignment in Python, which knows the table's rules, casts and checks it like any written value.
   */
  public static ArrayList values(Seq assignments) {
    ArrayList values = new ArrayList();
    for (Iterator it = assignments.iterator(); it.hasNext(); ) values.add(column(asWritten(((Assignment) it.next()).value()), true));
    return values;
  }

  private static Expression asWritten(Expression value) {
    if (value instanceof AssertNotNull) return asWritten(((AssertNotNull) value).child());
    boolean isSparks = value instanceof Cast && value.getTagValue(Cast$.MODULE$.BY_TABLE_INSERTION()).isDefined();
    if (isSparks) return asWritten(((Cast) value).child());
    boolean checksLength = value instanceof StaticInvoke && ((StaticInvoke) value).functionName().endsWith("WriteSideCheck");
    return checksLength ? asWritten((Expression) ((StaticInvoke) value).arguments().head()) : value;
  }

  /** An EXISTS over these rows, as a Column. The condition may refer to their columns and to those of the outer query. */
  public static Object exists(Dataset rows, Object condition) {
    org.apache.spark.sql.classic.Dataset dataset = (org.apache.spark.sql.classic.Dataset) rows;
    LogicalPlan plan = dataset.queryExecution().analyzed();
    Expression holds = dataset.sparkSession().expression((Column) condition);
    Object found = Cases.built("org.apache.spark.sql.catalyst.expressions.Exists", Collections.singletonList(new Filter(holds, plan)));
    return ExpressionUtils$.MODULE$.column((Expression) found);
  }

  /**
   * An expression as a Column.
   *
   * @param isOfSeveral whether there are several tables, so that messages show a column's table too
   */
  public static Object column(Expression expression, boolean isOfSeveral) {
    return ExpressionUtils$.MODULE$.column((Expression) expression.transform(new Shortened(isOfSeveral)));
  }

  /** Shortens qualifiers, which have catalog, database and table, to the table. */
  private static class Shortened extends AbstractPartialFunction {
    private final int parts;

    Shortened(boolean isOfSeveral) { parts = isOfSeveral ? 1 : 0; }

    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference && ((AttributeReference) node).qualifier().size() > parts;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      AttributeReference attribute = (AttributeReference) node;
      return attribute.withQualifier((Seq) attribute.qualifier().takeRight(parts));
    }
  }
}
