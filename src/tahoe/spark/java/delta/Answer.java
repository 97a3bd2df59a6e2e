package delta;

import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Rows that the log says, as a relation: Spark shows its label in plans and in the UI. It takes no Python: {@link Question} makes it from an
 * {@link Answered}.
 */
class Answer extends BaseRelation implements TableScan {
  /** Spark warns of tasks with more than a megabyte of data. */
  private static final long TASK_BYTES = 512 << 10;

  /** What a row takes in a message to a task beside its own bytes. */
  private static final int ROW_BYTES = 16;

  private final SparkSession session;
  private final StructType schema;
  private final ArrayList rows;
  private final String label;
  private final long bytes;

  private Answer(SparkSession session, StructType schema, ArrayList rows, String label) {
    this.session = session;
    this.schema = schema;
    this.rows = rows;
    this.label = label;
    long bytes = 0;
    for (Iterator it = rows.iterator(); it.hasNext(); ) bytes += ROW_BYTES + ((UnsafeRow) it.next()).getSizeInBytes();
    this.bytes = bytes;
  }

  /** A plan for rows with these attributes. */
  static LogicalRelation of(SparkSession session, Seq output, Answered answered) {
    StructType schema = DataTypeUtils.fromAttributes(output);
    Answer relation = new Answer(session, schema, answered.rows(schema), answered.label());
    LogicalRelation leaf = LogicalRelation$.MODULE$.apply(relation, false);
    return leaf.copy(relation, output, Option.empty(), false, Option.empty());
  }

  public SQLContext sqlContext() { return session.sqlContext(); }
  public StructType schema() { return schema; }
  public long sizeInBytes() { return ROW_BYTES + bytes; }
  public boolean needConversion() { return false; }
  public String toString() { return label; }

  public RDD buildScan() {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    return context.parallelize(rows, 1 + (int) (bytes / TASK_BYTES)).rdd();
  }
}
