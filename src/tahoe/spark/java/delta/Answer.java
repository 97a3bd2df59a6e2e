package delta;

import java.util.ArrayList;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SparkSession;
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
  /** With more rows than this in a task, Spark warns that its data is large. */
  private static final int TASK_ROWS = 4096;

  private static final int ROW_BYTES = 64;

  private final SparkSession session;
  private final StructType schema;
  private final ArrayList rows;
  private final String label;

  private Answer(SparkSession session, StructType schema, ArrayList rows, String label) {
    this.session = session;
    this.schema = schema;
    this.rows = rows;
    this.label = label;
  }

  /** A plan for rows with these attributes. */
  static LogicalRelation of(SparkSession session, Seq output, Answered answered) {
    Answer relation = new Answer(session, DataTypeUtils.fromAttributes(output), answered.rows(), answered.label());
    LogicalRelation leaf = LogicalRelation$.MODULE$.apply(relation, false);
    return leaf.copy(relation, output, Option.empty(), false, Option.empty());
  }

  public SQLContext sqlContext() { return session.sqlContext(); }
  public StructType schema() { return schema; }
  public long sizeInBytes() { return (1L + rows.size()) * ROW_BYTES; }
  public boolean needConversion() { return false; }
  public String toString() { return label; }

  public RDD buildScan() {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    return context.parallelize(rows, 1 + rows.size() / TASK_ROWS).rdd();
  }
}
