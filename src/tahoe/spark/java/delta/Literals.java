package delta;

import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType$;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Constants so that their JSON tells their value: the members of a set are listed, a timestamp is its microseconds (as text it would depend
 * on the session's time zone), bytes are hexadecimal digits.
 */
public class Literals extends AbstractPartialFunction {
  private static final Literals SHOWN = new Literals();

  public static Expression visible(Expression expression) { return (Expression) expression.transform(SHOWN); }

  public boolean isDefinedAt(Object node) { return node instanceof InSet || node instanceof Literal && hides((Literal) node); }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    return node instanceof InSet ? listed((InSet) node) : shown((Literal) node);
  }

  private static boolean hides(Literal literal) {
    return literal.value() != null
        && (literal.dataType().equals(TimestampType$.MODULE$) || literal.dataType().equals(BinaryType$.MODULE$));
  }

  private static Literal shown(Literal literal) {
    if (literal.dataType().equals(TimestampType$.MODULE$)) return new Literal(literal.value(), TimestampNTZType$.MODULE$);
    StringBuilder digits = new StringBuilder();
    byte[] bytes = (byte[]) literal.value();
    for (int i = 0; i < bytes.length; i++) digits.append(String.format("%02x", new Object[] { Byte.valueOf(bytes[i]) }));
    return new Literal(UTF8String.fromString(digits.toString()), StringType$.MODULE$);
  }

  private static In listed(InSet set) {
    ArrayList members = new ArrayList();
    for (Iterator it = CollectionConverters.asJava(set.hset()).iterator(); it.hasNext(); ) {
      Literal member = new Literal(it.next(), set.child().dataType());
      members.add(hides(member) ? shown(member) : member);
    }
    return new In(set.child(), CollectionConverters.asScala(members).toSeq());
  }
}
