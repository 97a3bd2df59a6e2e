package delta;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.DataFrameReader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.errors.QueryExecutionErrors$;
import org.apache.spark.sql.execution.datasources.DataSourceUtils$;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.SchemaUtils$;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Files that Spark's readers read without listing them: the file index of a reader asks this cache for what is at a path before it asks the
 * storage. Given one by one to a reader, more than {@code spark.sql.sources.parallelPartitionDiscovery.threshold} files are listed by a
 * task each. Python: {@code jvm.listed_files}.
 */
public class SourceFiles extends FileStatusCache {
  /** So many files are asked for their columns at once. */
  private static final int THREADS = 16;

  private final SparkSession session;
  private final Map found = new HashMap();
  private final Seq paths;

  /** @param files path, size, time, path, size, time, ..., each ended by a zero character; all in one file system */
  public SourceFiles(SparkSession session, String files) throws IOException {
    this.session = session;
    ArrayList inOrder = new ArrayList();
    String[] parts = files.split("\u0000", -1);
    FileSystem system = Files.path(parts[0]).getFileSystem(session.sessionState().newHadoopConf());
    for (int i = 0; i + 2 < parts.length; i += 3) {
      Path path = Files.path(parts[i]).makeQualified(system.getUri(), system.getWorkingDirectory());
      long size = Long.parseLong(parts[i + 1]);
      found.put(path, new FileStatus(size, false, 0, Files.BLOCK_BYTES, Long.parseLong(parts[i + 2]), path));
      inOrder.add(path);
    }
    this.paths = CollectionConverters.asScala(inOrder).toSeq();
  }

  public Option getLeafFiles(Path path) {
    Object status = found.get(path);
    return status == null ? Option.empty() : Option.apply(new FileStatus[] { (FileStatus) status });
  }

  public void putLeafFiles(Path path, FileStatus[] files) {}

  public void invalidateAll() {}

  /**
   * The rows of the files, as Spark's {@code DataSource} makes them of listed ones.
   *
   * @param like what the reader makes of no file: it has the format and the options
   * @param schema the columns with those of partitions, as the user of a reader gives them; null for those that the files have
   * @param inFiles the columns that the files have, if the caller knows them
   * @param merges whether those of all files count, although the format's own inference asks one of them
   * @return null if Spark is to be asked: the reader does not read files by this index, or the format finds no columns
   */
  public Dataset rows(Dataset like, StructType schema, StructType inFiles, boolean merges) throws Exception {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) like).queryExecution().analyzed();
    if (!(plan instanceof LogicalRelation) || !(((LogicalRelation) plan).relation() instanceof HadoopFsRelation)) return null;
    HadoopFsRelation given = (HadoopFsRelation) ((LogicalRelation) plan).relation();
    if (!(given.location() instanceof InMemoryFileIndex)) return null;
    InMemoryFileIndex index =
        new InMemoryFileIndex(session, paths, given.options(), Option.apply(schema), this, Option.empty(), Option.empty());
    StructType partitions = index.partitionSchema();
    boolean cases = session.sessionState().conf().caseSensitiveAnalysis();
    StructType data = schema == null ? inFiles : without(schema, partitions, cases);
    if (data == null) data = merges ? merged(given, index.allFiles(), cases) : inferred(given, index.allFiles());
    if (data == null) return null;
    SchemaUtils$.MODULE$.checkSchemaColumnNameDuplication(data, cases);
    SchemaUtils$.MODULE$.checkSchemaColumnNameDuplication(partitions, cases);
    DataSourceUtils$.MODULE$.verifySchema(given.fileFormat(), data, true);
    return session.baseRelationToDataFrame(
        new HadoopFsRelation(index, partitions, data.asNullable(), Option.empty(), given.fileFormat(), given.options(), session));
  }

  /** The columns of files, as their format infers them; null if it does not. */
  private StructType inferred(HadoopFsRelation like, Seq files) {
    Option columns = like.fileFormat().inferSchema(session, like.options(), files);
    return columns.isEmpty() ? null : (StructType) columns.get();
  }

  /** The columns of all files, of which each is asked. */
  private StructType merged(HadoopFsRelation like, Seq files, boolean cases) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(THREADS);
    try {
      ArrayList asked = new ArrayList();
      for (Iterator it = files.iterator(); it.hasNext(); ) asked.add(threads.submit(new ColumnsOf(this, like, (FileStatus) it.next())));
      StructType all = null;
      for (int i = 0; i < asked.size(); i++) {
        StructType columns = (StructType) ((Future) asked.get(i)).get();
        if (columns != null) all = all == null ? columns : all.merge(columns, cases);
      }
      return all;
    } catch (ExecutionException error) {
      throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
    } finally {
      threads.shutdownNow();
    }
  }

  /** The columns of one file. */
  private static class ColumnsOf implements Callable {
    private final SourceFiles files;
    private final HadoopFsRelation like;
    private final FileStatus file;

    ColumnsOf(SourceFiles files, HadoopFsRelation like, FileStatus file) {
      this.files = files;
      this.like = like;
      this.file = file;
    }

    public Object call() throws Exception {
      try {
        return files.inferred(like, CollectionConverters.asScala(Collections.singletonList(file)).toSeq());
      } catch (Exception error) {
        Throwable named = QueryExecutionErrors$.MODULE$.cannotReadFilesError(error, file.getPath().toString());
        throw named instanceof Exception ? (Exception) named : error;
      }
    }
  }

  /** The columns of files of text formats, as Spark infers them from the lines. Spark's own inference from files lists them. */
  public static StructType columnsOf(Dataset lines, DataFrameReader reader, String format) {
    Dataset texts = lines.select("value", new String[0]).as(Encoders.STRING());
    return (format.equals("JSON") ? reader.json(texts) : reader.csv(texts)).schema();
  }

  private static StructType without(StructType schema, StructType partitions, boolean cases) {
    ArrayList kept = new ArrayList();
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length; i++) {
      boolean isOfFolders = false;
      for (int j = 0; j < partitions.length(); j++) {
        String name = partitions.fields()[j].name();
        isOfFolders |= cases ? name.equals(fields[i].name()) : name.equalsIgnoreCase(fields[i].name());
      }
      if (!isOfFolders) kept.add(fields[i]);
    }
    return new StructType((StructField[]) kept.toArray(new StructField[0]));
  }
}
