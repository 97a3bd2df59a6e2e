package delta;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.AlwaysTrue;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's {@code ParquetFileFormat} with other filters for the reader:
 *
 * <ul>
 *   <li>IN is an OR of equalities, which skips every page without one of the values. From a list of more than ten values Spark passes only
 *       minimum and maximum.
 *   <li>Zero of a floating point type stands for minus zero too: to SQL they are equal, but the reader skips pages that have only the other.
 *   <li>NaN is greater than every number and equals itself. Writers leave it out of the bounds in the footer, so the reader would skip row
 *       groups with NaN for {@code f > 10}, {@code f = NaN} and {@code NOT f = 10}: these are left out, unless another part of the
 *       conjunction is false for NaN.
 * </ul>
 */
public class Parquet extends ParquetFileFormat {
  private static final int LISTED_MAX = 1000;

  private final String reason;
  private final LocalCache cache;

  public Parquet() { this("", null); }

  /**
   * @param reason why a native engine does not read the files, for EXPLAIN, or empty
   * @param cache the local cache through which they are read, or null
   */
  public Parquet(String reason, LocalCache cache) {
    this.reason = reason;
    this.cache = cache;
  }

  public String toString() {
    if (cache == null) return reason.isEmpty() ? "Parquet" : "Parquet (" + reason + ")";
    return "Parquet (" + (reason.isEmpty() ? "" : reason + "; ") + cache + ")";
  }

  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partitions, StructType required, Seq filters,
      scala.collection.immutable.Map options, Configuration conf) {
    if (cache != null) cache.install(session.sparkContext(), conf);
    Set numbers = new HashSet();
    for (Iterator it = filters.iterator(); it.hasNext(); ) addNumbers((Filter) it.next(), numbers);
    ArrayList told = new ArrayList();
    for (Iterator it = filters.iterator(); it.hasNext(); ) told.add(told((Filter) it.next(), numbers));
    return new ParquetFileFormat().buildReaderWithPartitionValues(
        session, data, partitions, required, CollectionConverters.asScala(told).toSeq(), options, conf);
  }

  /** A filter for the reader, true for at least the same rows. Those of {@code numbers} have no NaN in the rows that are asked for. */
  private static Filter told(Filter filter, Set numbers) {
    if (filter instanceof And) {
      Set inner = new HashSet(numbers);
      addNumbers(filter, inner);
      return new And(told(((And) filter).left(), inner), told(((And) filter).right(), inner));
    }
    if (filter instanceof Or) return new Or(told(((Or) filter).left(), numbers), told(((Or) filter).right(), numbers));
    if (skipsNaN(filter, numbers)) return new AlwaysTrue();
    if (filter instanceof In) return listed((In) filter);
    if (filter instanceof EqualTo) return equal(((EqualTo) filter).attribute(), ((EqualTo) filter).value(), filter);
    if (filter instanceof EqualNullSafe) return equal(((EqualNullSafe) filter).attribute(), ((EqualNullSafe) filter).value(), filter);
    if (filter instanceof GreaterThanOrEqual) {
      GreaterThanOrEqual bound = (GreaterThanOrEqual) filter;
      return isZero(bound.value()) ? new GreaterThanOrEqual(bound.attribute(), zero(bound.value(), -0.0)) : filter;
    }
    if (!(filter instanceof LessThanOrEqual)) return filter;  // also NOT: zero is its own opposite there, and excludes no other value
    LessThanOrEqual bound = (LessThanOrEqual) filter;
    return isZero(bound.value()) ? new LessThanOrEqual(bound.attribute(), zero(bound.value(), 0.0)) : filter;
  }

  /** Adds the columns that are not NaN where the filter is true. */
  private static void addNumbers(Filter filter, Set numbers) {
    if (filter instanceof And) {
      addNumbers(((And) filter).left(), numbers);
      addNumbers(((And) filter).right(), numbers);
    } else if (filter instanceof LessThan || filter instanceof LessThanOrEqual && !isNaN(compared(filter))) {
      numbers.add(filter.references()[0]);
    }
  }

  /** Whether a filter is true for NaN, but would skip it. */
  private static boolean skipsNaN(Filter filter, Set numbers) {
    Object value = compared(filter instanceof Not ? ((Not) filter).child() : filter);
    boolean isAbove = filter instanceof GreaterThan || filter instanceof GreaterThanOrEqual || filter instanceof Not;
    return (isAbove && isFloating(value) || isNaN(value)) && !numbers.contains(filter.references()[0]);
  }

  /** What a filter compares its column with, the first value of a list; null for other filters. */
  private static Object compared(Filter filter) {
    if (filter instanceof EqualTo) return ((EqualTo) filter).value();
    if (filter instanceof EqualNullSafe) return ((EqualNullSafe) filter).value();
    if (filter instanceof GreaterThan) return ((GreaterThan) filter).value();
    if (filter instanceof GreaterThanOrEqual) return ((GreaterThanOrEqual) filter).value();
    if (filter instanceof LessThan) return ((LessThan) filter).value();
    if (filter instanceof LessThanOrEqual) return ((LessThanOrEqual) filter).value();
    if (!(filter instanceof In)) return null;
    Object[] values = ((In) filter).values();
    return values.length == 0 ? null : values[0];
  }

  private static Filter equal(String column, Object value, Filter otherwise) {
    if (isNaN(value)) return new AlwaysTrue();
    if (!isZero(value)) return otherwise;
    return new And(new GreaterThanOrEqual(column, zero(value, -0.0)), new LessThanOrEqual(column, zero(value, 0.0)));
  }

  private static boolean isNaN(Object value) {
    return isFloating(value) && Double.isNaN(((Number) value).doubleValue());
  }

  private static boolean isZero(Object value) {
    return isFloating(value) && ((Number) value).doubleValue() == 0.0;
  }

  private static boolean isFloating(Object value) {
    return value instanceof Double || value instanceof Float;
  }

  /** One of the zeros, of the type of {@code like}. */
  private static Object zero(Object like, double zero) {
    return like instanceof Double ? (Object) Double.valueOf(zero) : (Object) Float.valueOf((float) zero);
  }

  private static Filter listed(In in) {
    ArrayList each = new ArrayList();
    boolean hasSpecial = false;
    Object[] values = in.values();
    for (int i = 0; i < values.length; i++) {
      if (values[i] != null) each.add(equal(in.attribute(), values[i], new EqualTo(in.attribute(), values[i])));
      hasSpecial |= isZero(values[i]) || isNaN(values[i]);
    }
    if (each.size() > LISTED_MAX && hasSpecial) return new AlwaysTrue();
    return each.isEmpty() || each.size() > LISTED_MAX ? in : any(each);
  }

  /** The OR of filters, as a balanced tree, because Spark recurses into it. */
  private static Filter any(List filters) {
    int half = filters.size() / 2;
    if (half == 0) return (Filter) filters.get(0);
    return new Or(any(filters.subList(0, half)), any(filters.subList(half, filters.size())));
  }
}
