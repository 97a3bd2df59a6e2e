package delta;

import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.Sink;

/** A Delta table as the sink of one query. Each batch is one commit, which records the query and the batch. Python: {@code streams.sink}. */
public class StreamSink implements Sink {
  /** The property of a query's thread with the id of the query. */
  static final String QUERY = "sql.streaming.queryId";

  private final SparkSession session;
  private final Map options;
  private final String partitions;
  private final String mode;

  /** {@code partitions}: the columns of partitionBy, separated by NUL. {@code mode}: Append or Complete. */
  public StreamSink(SparkSession session, Map options, String partitions, String mode) {
    this.session = session;
    this.options = options;
    this.partitions = partitions;
    this.mode = mode;
  }

  public void addBatch(long batch, Dataset rows) {
    String query = session.sparkContext().getLocalProperty(QUERY);
    Ask.answer(Ask.python.streamWrite(rows.sparkSession(), options, partitions, mode, query, batch, rows));
  }

  /** The option {@code path}, for {@code streaming_plans.tables_of}. */
  public String path() { return (String) options.get("path"); }

  public String toString() { return "Delta[" + path() + "]"; }
}
