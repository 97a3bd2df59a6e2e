package delta;

import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PrettyAttribute;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DatetimeType;
import org.apache.spark.sql.types.NullType$;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType$;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Partial function over expressions: rewrites literals so that JSON and SQL show their exact value in any session time zone. The members of
 * an {@link InSet} are listed. In JSON, a timestamp is its microseconds, and bytes are hexadecimal; in SQL, a timestamp is an instant in
 * UTC. {@code reading.filters} reads the JSON. It is Java because Spark calls it for every node of an expression.
 */
public class Literals extends AbstractPartialFunction {
  private static final Literals IN_JSON = new Literals(false);
  private static final Literals IN_SQL = new Literals(true);

  private final boolean sql;

  private Literals(boolean sql) { this.sql = sql; }

  /** The expression with its literals in the form for {@code toJSON}. */
  public static Expression visible(Expression expression) { return (Expression) expression.transform(IN_JSON); }

  /**
   * An analyzed condition as JSON, in the form of {@link Files#json}. Casts of literals are evaluated, as the optimizer would do. Unlike
   * there, nothing is left out.
   */
  public static String told(Expression condition) {
    return "[" + visible((Expression) condition.transform(new Folded())).toJSON() + "]";
  }

  /** Partial function over expressions: evaluates casts of literals. */
  private static class Folded extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof Cast && ((Cast) node).child() instanceof Literal && ((Cast) node).resolved() && !isWord((Cast) node);
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Cast cast = (Cast) node;
      return new Literal(cast.eval(InternalRow.empty()), cast.dataType());
    }
  }

  /** Whether a word is cast to a date or a time: 'now', 'today' and others, for which Spark puts in a value when it optimises a query. */
  static boolean isWord(Cast cast) {
    if (!(cast.child() instanceof Literal) || !(cast.dataType() instanceof DatetimeType)) return false;
    Object value = ((Literal) cast.child()).value();
    return value instanceof UTF8String && value.toString().trim().matches("[A-Za-z].*");
  }

  /**
   * A condition as unambiguous SQL. In Spark's own text, a timestamp is ambiguous in the hour that repeats when daylight
   * saving time ends, and a column named true is a literal.
   */
  public static String sql(Expression condition) { return ((Expression) condition.transform(IN_SQL)).sql(); }

  /** The SQL condition that the partition columns {@code names} have the values of a row, in this order. */
  public static String same(Seq names, InternalRow values, StructType partitions) {
    String text = "true";
    for (int i = 0; i < names.size(); i++) {
      DataType type = partitions.apply((String) names.apply(i)).dataType();
      Expression column = UnresolvedAttribute.quoted((String) names.apply(i));
      text += " and " + sql(new EqualNullSafe(column, new Literal(values.get(i, type), type)));
    }
    return text;
  }

  public boolean isDefinedAt(Object node) {
    if (node instanceof AttributeReference || node instanceof UnresolvedAttribute) return sql;
    return node instanceof InSet || node instanceof Literal && hides((Literal) node);
  }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    if (node instanceof UnresolvedAttribute) return named(((UnresolvedAttribute) node).nameParts(), NullType$.MODULE$);
    if (node instanceof AttributeReference) {
      AttributeReference column = (AttributeReference) node;
      return named((Seq) column.qualifier().appended(column.name()), column.dataType());
    }
    return node instanceof InSet ? listed((InSet) node) : shown((Literal) node);
  }

  private static PrettyAttribute named(Seq parts, DataType type) {
    String text = "";
    for (int i = 0; i < parts.size(); i++) text += (i == 0 ? "" : ".") + quoted((String) parts.apply(i));
    return new PrettyAttribute(text, type);
  }

  /** A column name in SQL, in backquotes if Spark's parser would read it as anything else. */
  private static String quoted(String name) {
    try {
      Object read = CatalystSqlParser$.MODULE$.parseExpression(name);
      if (read instanceof UnresolvedAttribute && ((UnresolvedAttribute) read).nameParts().equals(single(name))) return name;
    } catch (Exception notAName) {
      // a keyword such as case, or blanks in the name
    }
    return "`" + name.replace("`", "``") + "`";
  }

  private static Seq single(String name) { return CollectionConverters.asScala(Collections.singletonList(name)).toSeq(); }

  /** Whether Spark's own text of a literal depends on the time zone or does not show its value. */
  private boolean hides(Literal literal) {
    return literal.value() != null
        && (literal.dataType().equals(TimestampType$.MODULE$) || !sql && literal.dataType().equals(BinaryType$.MODULE$));
  }

  private Expression shown(Literal literal) {
    if (!literal.dataType().equals(TimestampType$.MODULE$)) return text(digits((byte[]) literal.value()));
    if (!sql) return new Literal(literal.value(), TimestampNTZType$.MODULE$);
    long micros = ((Long) literal.value()).longValue();
    Instant instant = Instant.ofEpochSecond(Math.floorDiv(micros, 1000000L), Math.floorMod(micros, 1000000L) * 1000L);
    return new PrettyAttribute("TIMESTAMP '" + instant + "'", literal.dataType());  // a mere text would be compared as one without ANSI
  }

  private static String digits(byte[] bytes) {
    StringBuilder digits = new StringBuilder();
    for (int i = 0; i < bytes.length; i++) digits.append(String.format("%02x", new Object[] { Byte.valueOf(bytes[i]) }));
    return digits.toString();
  }

  private static Literal text(String value) { return new Literal(UTF8String.fromString(value), StringType$.MODULE$); }

  private In listed(InSet set) {
    ArrayList members = new ArrayList();
    for (Iterator it = CollectionConverters.asJava(set.hset()).iterator(); it.hasNext(); ) {
      Literal member = new Literal(it.next(), set.child().dataType());
      members.add(hides(member) ? shown(member) : (Expression) member);
    }
    return new In(set.child(), CollectionConverters.asScala(members).toSeq());
  }
}
