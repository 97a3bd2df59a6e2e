package delta;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.execution.datasources.FileFormat;
import scala.collection.immutable.Map;

/**
 * Python's answer to {@link Python#plan} and {@link Python#changes}: how one query reads a table. It is either a selection of files with
 * their format, or a plan that yields the rows (deletion vectors, row tracking fields, change data feeds).
 */
public class Planned {
  private final long version;
  private final String metadata;
  private final String selection;
  private final long bytes;
  private final String label;
  private final FileFormat format;
  private final Dataset rows;
  private final boolean guards;
  private final Map settings;

  /**
   * The first arguments are those of {@link Files}.
   *
   * @param format null for {@link Parquet}
   * @param rows null for files
   * @param guards whether conditions must be {@link Guarded}, because a reader may skip row groups by those of the plan
   * @param settings of Hadoop for the scan of the files; null for those of the relation alone
   */
  public Planned(
      long version, String metadata, String selection, long bytes, String label, FileFormat format, Dataset rows, boolean guards,
      Map settings) {
    this.version = version;
    this.metadata = metadata;
    this.selection = selection;
    this.bytes = bytes;
    this.label = label;
    this.format = format;
    this.rows = rows;
    this.guards = guards;
    this.settings = settings;
  }

  public long version() { return version; }
  public FileFormat format() { return format == null ? new Parquet() : format; }
  public Dataset rows() { return rows; }
  public boolean guards() { return guards; }

  /** The options of the scan, from those of the analyzed relation. */
  public Map options(Map analysed) { return settings == null ? analysed : (Map) analysed.$plus$plus(settings); }

  /** The index of the selected files, from the index of the analyzed relation. It is planned, so {@link Rewrite} leaves it as it is. */
  public Files files(Files all) {
    return new Files(all.key(), metadata, version, true, selection, null, all.partitionSchema(), bytes, label);
  }
}
