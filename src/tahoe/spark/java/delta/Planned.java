package delta;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.execution.datasources.FileFormat;

/** How a table is read in one query: as files of a format, or, where a list of files cannot say it, as rows of a plan. */
public class Planned {
  private final long version;
  private final Files files;
  private final FileFormat format;
  private final Dataset rows;

  public Planned(long version, Files files, FileFormat format, Dataset rows) {
    this.version = version;
    this.files = files;
    this.format = format;
    this.rows = rows;
  }

  public long version() { return version; }
  public Files files() { return files; }
  public FileFormat format() { return format; }
  public Dataset rows() { return rows; }
}
