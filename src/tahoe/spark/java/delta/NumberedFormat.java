package delta;

import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;

/**
 * Writes Parquet files in which elements, keys and values have field ids, which Spark's own writer gives to columns alone. Tasks write with
 * {@code delta.write.NestedIds}, which is sent to executors as a JAR. Python: {@code jvm.file_writer}.
 */
public class NumberedFormat extends ParquetFileFormat {
  private final String support;
  private final String jar;

  /**
   * @param support the name of the class with which tasks write
   * @param jar the path of the JAR with it
   */
  public NumberedFormat(String support, String jar) {
    this.support = support;
    this.jar = jar;
  }

  public OutputWriterFactory prepareWrite(SparkSession session, Job job, scala.collection.immutable.Map options, StructType schema) {
    OutputWriterFactory made = super.prepareWrite(session, job, options, schema);
    job.getConfiguration().set("parquet.write.support.class", support);
    ExecutorJar.send(session.sparkContext(), jar);
    return made;
  }
}
