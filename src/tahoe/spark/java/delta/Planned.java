package delta;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;

/** How a table is read in one query: as files of a format, or, where a list of files cannot say it, as rows of a plan. */
public class Planned {
  private final long version;
  private final String metadata;
  private final String selection;
  private final long bytes;
  private final String label;
  private final FileFormat format;
  private final Dataset rows;

  /** The arguments of {@link Files}; {@code format} is null for Spark's own Parquet, {@code rows} where the files say it all. */
  public Planned(long version, String metadata, String selection, long bytes, String label, FileFormat format, Dataset rows) {
    this.version = version;
    this.metadata = metadata;
    this.selection = selection;
    this.bytes = bytes;
    this.label = label;
    this.format = format;
    this.rows = rows;
  }

  public long version() { return version; }
  public FileFormat format() { return format == null ? new Parquet() : format; }
  public Dataset rows() { return rows; }

  /** The chosen ones of a relation's files, at which no rule looks again. */
  public Files files(Files all) {
    return new Files(all.key(), metadata, version, true, selection, null, all.partitionSchema(), bytes, label);
  }
}
