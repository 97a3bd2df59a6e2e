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

/** Columns that a user took from a DataFrame of a table, by their names: a command reads the table anew, where they have other identities. */
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
   * @param frames those that the user was given of the table, one at least
   * @param source of a MERGE, or null: a column that may be its as well is left as it is
   * @param qualifier the parts by which the table's columns go, or none
   */
  public static Column byName(Column column, List frames, Dataset source, List qualifier) {
    Expression given = ((Dataset) frames.get(0)).sparkSession().expression(column);
    Columns names = new Columns(frames, source, qualifier);
    return ExpressionUtils$.MODULE$.column((Expression) given.transform(names));
  }

  /** The cast of Spark's old mode, whatever the session's is: what does not fit is null, or cut off. */
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
