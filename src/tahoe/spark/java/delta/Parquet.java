package delta;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.AlwaysTrue;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThanOrEqual;
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
 * </ul>
 */
public class Parquet extends ParquetFileFormat {
  private static final int LISTED_MAX = 1000;

  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partitions, StructType required, Seq filters,
      scala.collection.immutable.Map options, Configuration conf) {
    ArrayList told = new ArrayList();
    for (Iterator it = filters.iterator(); it.hasNext(); ) told.add(told((Filter) it.next()));
    return new ParquetFileFormat().buildReaderWithPartitionValues(
        session, data, partitions, required, CollectionConverters.asScala(told).toSeq(), options, conf);
  }

  /** A filter for the reader, true for at least the same rows. One under NOT stays as it is: there, zero excludes no other value. */
  private static Filter told(Filter filter) {
    if (filter instanceof And) return new And(told(((And) filter).left()), told(((And) filter).right()));
    if (filter instanceof Or) return new Or(told(((Or) filter).left()), told(((Or) filter).right()));
    if (filter instanceof In) return listed((In) filter);
    if (filter instanceof EqualTo) return equal(((EqualTo) filter).attribute(), ((EqualTo) filter).value(), filter);
    if (filter instanceof EqualNullSafe) return equal(((EqualNullSafe) filter).attribute(), ((EqualNullSafe) filter).value(), filter);
    if (filter instanceof GreaterThanOrEqual) {
      GreaterThanOrEqual bound = (GreaterThanOrEqual) filter;
      return isZero(bound.value()) ? new GreaterThanOrEqual(bound.attribute(), zero(bound.value(), -0.0)) : filter;
    }
    if (!(filter instanceof LessThanOrEqual)) return filter;
    LessThanOrEqual bound = (LessThanOrEqual) filter;
    return isZero(bound.value()) ? new LessThanOrEqual(bound.attribute(), zero(bound.value(), 0.0)) : filter;
  }

  private static Filter equal(String column, Object value, Filter otherwise) {
    if (!isZero(value)) return otherwise;
    return new And(new GreaterThanOrEqual(column, zero(value, -0.0)), new LessThanOrEqual(column, zero(value, 0.0)));
  }

  private static boolean isZero(Object value) {
    return (value instanceof Double || value instanceof Float) && ((Number) value).doubleValue() == 0.0;
  }

  /** One of the zeros, of the type of {@code like}. */
  private static Object zero(Object like, double zero) {
    return like instanceof Double ? (Object) Double.valueOf(zero) : (Object) Float.valueOf((float) zero);
  }

  private static Filter listed(In in) {
    ArrayList each = new ArrayList();
    boolean hasZero = false;
    Object[] values = in.values();
    for (int i = 0; i < values.length; i++) {
      if (values[i] != null) each.add(equal(in.attribute(), values[i], new EqualTo(in.attribute(), values[i])));
      hasZero |= isZero(values[i]);
    }
    if (each.size() > LISTED_MAX && hasZero) return new AlwaysTrue();
    return each.isEmpty() || each.size() > LISTED_MAX ? in : any(each);
  }

  /** The OR of filters, as a balanced tree, because Spark recurses into it. */
  private static Filter any(List filters) {
    int half = filters.size() / 2;
    if (half == 0) return (Filter) filters.get(0);
    return new Or(any(filters.subList(0, half)), any(filters.subList(half, filters.size())));
  }
}
