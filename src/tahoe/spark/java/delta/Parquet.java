package delta;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's {@code ParquetFileFormat} with IN filters as an OR of equalities, which skips every page without one of the values. From a list
 * of more than ten values Spark passes only minimum and maximum to the reader.
 */
public class Parquet extends ParquetFileFormat {
  private static final int LISTED_MAX = 1000;

  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partitions, StructType required, Seq filters,
      scala.collection.immutable.Map options, Configuration conf) {
    ArrayList told = new ArrayList();
    for (Iterator it = filters.iterator(); it.hasNext(); ) {
      Filter filter = (Filter) it.next();
      told.add(filter instanceof In ? listed((In) filter) : filter);
    }
    return new ParquetFileFormat().buildReaderWithPartitionValues(
        session, data, partitions, required, CollectionConverters.asScala(told).toSeq(), options, conf);
  }

  private static Filter listed(In in) {
    ArrayList each = new ArrayList();
    Object[] values = in.values();
    for (int i = 0; i < values.length; i++) if (values[i] != null) each.add(new EqualTo(in.attribute(), values[i]));
    return each.isEmpty() || each.size() > LISTED_MAX ? in : any(each);
  }

  /** The OR of filters, as a balanced tree, because Spark recurses into it. */
  private static Filter any(List filters) {
    int half = filters.size() / 2;
    if (half == 0) return (Filter) filters.get(0);
    return new Or(any(filters.subList(0, half)), any(filters.subList(half, filters.size())));
  }
}
