package delta;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import scala.Function1;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Partial function over expressions: replaces columns of a user's DataFrames of a table with their names. A command reads the table again,
 * with new expression ids, so that the columns would not resolve. {@code dml_arguments.own_columns} calls it.
 */
public class Columns extends AbstractPartialFunction {
  private final List frames;
  private final Dataset source;
  private final List qualifier;

  private Columns(List frames, Dataset source, List qualifier) {
    this.frames = frames;
    this.source = source;
    this.qualifier = qualifier;
  }

  /**
   * @param frames the DataFrames of the table that the user has, at least one
   * @param source the source of a MERGE, or null; a column that the source has too is not replaced
   * @param qualifier the table's alias, as parts of a name; may be empty
   */
  public static Column byName(Column column, List frames, Dataset source, List qualifier) {
    Expression given = ((Dataset) frames.get(0)).sparkSession().expression(column);
    Columns names = new Columns(frames, source, qualifier);
    return ExpressionUtils$.MODULE$.column((Expression) given.transform(names));
  }

  /** A cast without ANSI mode, whatever the session's setting: a value that does not fit becomes null or is truncated. */
  public static Object castAsOfOld(Column column, String type) {
    SparkSession session = (SparkSession) SparkSession.active();
    Expression given = session.expression(column);
    return ExpressionUtils$.MODULE$.column(Cast$.MODULE$.apply(given, DataType.fromJson(type), Option.empty(), false));
  }

  public boolean isDefinedAt(Object node) {
    if (!(node instanceof AttributeReference)) return false;
    Attribute attribute = (Attribute) node;
    if (source != null && source.queryExecution().analyzed().outputSet().contains(attribute)) return false;
    for (Iterator it = frames.iterator(); it.hasNext(); ) {
      if (((Dataset) it.next()).queryExecution().analyzed().outputSet().contains(attribute)) return true;
    }
    return false;
  }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    java.util.ArrayList parts = new java.util.ArrayList(qualifier);
    parts.add(((Attribute) node).name());
    return new UnresolvedAttribute(CollectionConverters.asScala(parts).toSeq());
  }
}
