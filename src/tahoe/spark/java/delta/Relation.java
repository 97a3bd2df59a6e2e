package delta;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/** A table as Spark reads it. Options are kept as given: Spark copies, and so loses, a cached relation whose options differ from the catalog's. */
public class Relation extends HadoopFsRelation implements InsertableRelation {
  public Relation(Files files, StructType data, FileFormat format, Map options, SparkSession session) {
    super(files, files.partitionSchema(), data, Option.empty(), format, options, session);
  }

  /** Most arguments are those of {@link Files}; schemas are JSON, and a format that is null is Spark's own Parquet; options may be null. */
  public static Relation of(
      SparkSession session, String key, String metadata, long version, boolean pinned, String selection, String within,
      String partitions, long bytes, String label, String data, FileFormat format, Map options) {
    StructType columns = (StructType) DataType.fromJson(partitions);
    Files files = new Files(key, metadata, version, pinned, selection, within, columns, bytes, label);
    FileFormat chosen = format == null ? new Parquet() : format;
    Map given = options == null ? Map$.MODULE$.empty() : options;
    return new Relation(files, (StructType) DataType.fromJson(data), chosen, given, session);
  }

  /** The change feed of a table: rows of the schema {@code data}, as JSON. */
  public static Relation ofChanges(SparkSession session, Changes changes, String data, Map options) {
    return new Relation(changes, (StructType) DataType.fromJson(data), new ParquetFileFormat(), options, session);
  }

  /** The leaf of a plan that scans these files, whose label stands where Spark's plans and UI have a table's name. */
  public LogicalRelation scan() {
    return LogicalRelation$.MODULE$.apply(this, (CatalogTable) labelled(Option.empty(), ((Files) location()).label()).get());
  }

  /** The leaf of a plan that stands for a query of all of it. */
  public LogicalRelation leaf() { return LogicalRelation$.MODULE$.apply(this, false); }

  /** A catalog's table, or one that is in no catalog, under a label. */
  static Option labelled(Option table, String label) {
    List fields = Arrays.asList(new TableIdentifier(label), CatalogTableType.EXTERNAL(), CatalogStorageFormat.empty(), new StructType());
    if (table.isEmpty()) return Option.apply(Cases.built("org.apache.spark.sql.catalyst.catalog.CatalogTable", fields));
    return Option.apply(Cases.changed((Product) table.get(), Collections.singletonMap("identifier", new TableIdentifier(label))));
  }

  public void insert(Dataset data, boolean overwrite) {
    Files files = (Files) location();
    Ask.answer(Ask.python.insert(sparkSession(), files.table(), files.selection(), data, overwrite));
  }
}
