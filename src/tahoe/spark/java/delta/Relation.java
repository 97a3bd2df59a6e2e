package delta;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;

/** A table as Spark reads it. Options are kept as given: Spark copies, and so loses, a cached relation whose options differ from the catalog's. */
public class Relation extends HadoopFsRelation implements InsertableRelation {
  public Relation(Files files, StructType data, FileFormat format, Map options, SparkSession session) {
    super(files, files.partitionSchema(), data, Option.empty(), format, options, session);
  }

  public void insert(Dataset data, boolean overwrite) {
    Ask.answer(Ask.python.insert(sparkSession(), (Files) location(), data, overwrite));
  }
}
