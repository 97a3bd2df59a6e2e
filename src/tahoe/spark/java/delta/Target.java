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
 * The table that a statement changes, as Spark has resolved it: by its name or its path, or through a view that only chooses and renames
 * columns. The statement's expressions know columns by the identities that they have here.
 */
public class Target {
  /** What a constant begins with that stands for a column of the target: its identity follows, and then the names of fields. */
  static final String IDENTITY = "\u0001";

  private final String url;
  private final ArrayList columns;  // what the statement sees, under the names that the table has for it
  private final HashMap names;  // of these and of what they are made of, by identity

  private Target(String url, ArrayList columns, HashMap names) {
    this.url = url;
    this.columns = columns;
    this.names = names;
  }

  public String url() { return url; }

  /** The target of a statement; null where it is no table of ours, or not just that. */
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

  /** Whether this is how Spark reads a column of type CHAR, or one that has such fields: it fills values up with blanks. */
  private static boolean pads(Expression expression) {
    if (expression instanceof StaticInvoke && ((StaticInvoke) expression).functionName().equals("readSidePadding")) return true;
    for (Iterator children = expression.children().iterator(); children.hasNext(); )
      if (pads((Expression) children.next())) return true;
    return false;
  }

  /** Whether a plan is made of a table of ours, whatever it does with it. */
  public static boolean isOfOurs(LogicalPlan plan) {
    for (Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
      LogicalPlan leaf = (LogicalPlan) leaves.next();
      if (Files.of(leaf) != null || url(leaf, new HashMap()) != null) return true;
    }
    return false;
  }

  /** The fields of the metadata column that the statement's expressions name, such as file_path; none where they name it not. */
  public ArrayList metadata() {
    ArrayList names = new ArrayList();
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.get(i);
      if (!MetadataAttribute$.MODULE$.isValid(column.metadata())) continue;
      for (String name : ((StructType) column.dataType()).fieldNames()) names.add(name);
    }
    return names;
  }

  /** Rows of the table whose columns have the identities that the statement knows; null where the table has other columns by now. */
  public Dataset rows(Dataset rows) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().analyzed();
    HashMap known = new HashMap();
    for (int i = 0; i < columns.size(); i++) known.put(((Attribute) columns.get(i)).name(), columns.get(i));
    ArrayList identified = new ArrayList();
    for (Iterator output = plan.output().iterator(); output.hasNext(); ) {
      Attribute inside = (Attribute) output.next();
      Attribute outer = (Attribute) known.remove(inside.name());
      if (outer != null && !DataTypeUtils.sameType(outer.dataType(), inside.dataType())) return null;  // Spark reads all as nullable
      identified.add(outer == null ? inside : (Object) alias(inside, outer));
    }
    if (!known.isEmpty()) return null;
    return Dataset$.MODULE$.ofRows(
        ((org.apache.spark.sql.classic.Dataset) rows).sparkSession(), new Project(CollectionConverters.asScala(identified).toSeq(), plan));
  }

  static Alias alias(Attribute inside, Attribute outer) {
    Seq nothing = CollectionConverters.asScala(new ArrayList()).toSeq();
    return new Alias(inside, outer.name(), outer.exprId(), nothing, Option.empty(), nothing);
  }

  // assignments

  /**
   * What assignments are for: the path of each one's column, joined by zero characters; null for {@link Merges#STAR}; a path that begins
   * with an empty name for what is no column, nor a field of one. A MERGE calls columns by constants, see {@link Merges}.
   */
  public ArrayList paths(Seq assignments) {
    ArrayList paths = new ArrayList();
    for (Iterator it = assignments.iterator(); it.hasNext(); ) {
      Expression key = ((Assignment) it.next()).key();
      if (key instanceof Literal) paths.add(((Literal) key).value() == null ? null : told(((Literal) key).value().toString()));
      else paths.add(path(key));
    }
    return paths;
  }

  /** Spark may have given a column of type CHAR another identity since the constant was made, and pads its values with blanks. */
  private String told(String path) {
    if (!path.startsWith(IDENTITY)) return path;
    int end = path.indexOf('\u0000') < 0 ? path.length() : path.indexOf('\u0000');
    for (java.util.Iterator it = names.entrySet().iterator(); it.hasNext(); ) {
      Map.Entry column = (Map.Entry) it.next();
      if (String.valueOf(((ExprId) column.getKey()).id()).equals(path.substring(1, end))) return column.getValue() + path.substring(end);
    }
    throw new IllegalStateException("the target of a statement has lost the column " + path.substring(1));
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
   * The values, as Columns, and as the user gave them: Spark casts some to the types of their columns, by other rules than those for rows
   * that are written.
   */
  public static ArrayList values(Seq assignments) {
    ArrayList values = new ArrayList();
    for (Iterator it = assignments.iterator(); it.hasNext(); ) values.add(column(given(((Assignment) it.next()).value()), true));
    return values;
  }

  private static Expression given(Expression value) {
    if (value instanceof AssertNotNull) return given(((AssertNotNull) value).child());
    if (value instanceof Cast && value.getTagValue(Cast$.MODULE$.BY_TABLE_INSERTION()).isDefined()) return given(((Cast) value).child());
    boolean checksLength = value instanceof StaticInvoke && ((StaticInvoke) value).functionName().endsWith("WriteSideCheck");
    return checksLength ? given((Expression) ((StaticInvoke) value).arguments().head()) : value;
  }

  /** Whether there is a row for which a condition holds, on the columns of these rows or else on those of whoever asks. */
  public static Object exists(Dataset rows, Object condition) {
    org.apache.spark.sql.classic.Dataset dataset = (org.apache.spark.sql.classic.Dataset) rows;
    LogicalPlan plan = dataset.queryExecution().analyzed();
    Expression holds = dataset.sparkSession().expression((Column) condition);
    Object found = Cases.built("org.apache.spark.sql.catalyst.expressions.Exists", Collections.singletonList(new Filter(holds, plan)));
    return ExpressionUtils$.MODULE$.column((Expression) found);
  }

  /** An expression as a Column; its columns are called by their names, or by those of their tables as well. */
  public static Object column(Expression expression, boolean isOfSeveral) {
    return ExpressionUtils$.MODULE$.column((Expression) expression.transform(new Called(isOfSeveral)));
  }

  /** Of a name in all its parts, catalog, database and table, the last is enough to tell the user what is meant. */
  private static class Called extends AbstractPartialFunction {
    private final int parts;

    Called(boolean isOfSeveral) { parts = isOfSeveral ? 1 : 0; }

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
