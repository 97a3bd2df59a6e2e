package delta;

import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNaN;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType$;
import org.apache.spark.sql.types.FloatType$;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/**
 * Partial function over expressions: hides floating point columns, and fields of structs, from a reader that skips row groups by a condition, as
 * {@code if(isnan(f), NaN, f)}, which is {@code f}. It is for readers that cannot be told other filters than those of the plan, as
 * {@link Parquet} tells Spark's. Bounds in footers leave out NaN, which is greater than every number, and may have one of two equal zeros.
 * An upper bound by a number other than zero, and equality with one, are safe and stay as they are.
 */
public class Guarded extends AbstractPartialFunction {
  private static final Guarded COLUMNS = new Guarded();

  private Guarded() { }

  /** A condition with the same value, by which no reader skips a row group that has a row of it. */
  public static Expression of(Expression condition) {
    if (condition instanceof And) return new And(of(((And) condition).left()), of(((And) condition).right()));
    if (condition instanceof Or) return new Or(of(((Or) condition).left()), of(((Or) condition).right()));
    boolean tests = condition instanceof IsNotNull || condition instanceof IsNull;
    return tests || isSafe(condition) ? condition : (Expression) condition.transformUp(COLUMNS);
  }

  /** Whether a condition is an upper bound of a column or equality with it, by a number other than zero. */
  private static boolean isSafe(Expression condition) {
    if (condition instanceof LessThan) return isNumber(((LessThan) condition).right());
    if (condition instanceof LessThanOrEqual) return isNumber(((LessThanOrEqual) condition).right());
    if (condition instanceof GreaterThan) return isNumber(((GreaterThan) condition).left());
    if (condition instanceof GreaterThanOrEqual) return isNumber(((GreaterThanOrEqual) condition).left());
    if (!(condition instanceof EqualTo)) return false;
    return isNumber(((EqualTo) condition).left()) || isNumber(((EqualTo) condition).right());
  }

  private static boolean isNumber(Expression value) {
    if (!(value instanceof Literal) || !isFloating(value.dataType()) || ((Literal) value).value() == null) return false;
    double number = ((Number) ((Literal) value).value()).doubleValue();
    return !Double.isNaN(number) && number != 0;
  }

  private static boolean isFloating(DataType type) { return type instanceof DoubleType$ || type instanceof FloatType$; }

  public boolean isDefinedAt(Object node) {
    return (node instanceof AttributeReference || node instanceof GetStructField) && isFloating(((Expression) node).dataType());
  }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    Expression column = (Expression) node;
    Object nan = column.dataType() instanceof DoubleType$ ? (Object) Double.valueOf(Double.NaN) : (Object) Float.valueOf(Float.NaN);
    return new If(new IsNaN(column), new Literal(nan, column.dataType()), column);
  }
}
