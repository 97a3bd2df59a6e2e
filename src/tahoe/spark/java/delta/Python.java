package delta;

import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.TableChange;
import scala.collection.immutable.Seq;

/**
 * Everything that Java asks of Python. The one implementation is {@code tahoe.spark.source.Source}; an answer that is a {@link Throwable}
 * stands for an error, and {@link Ask} throws it.
 */
public interface Python {
  /** A {@link Relation} for the options of a reader, or of a table in a catalog; {@code given} are the same as Spark gave them. */
  Object relation(SparkSession session, Map options, scala.collection.immutable.Map given);

  /**
   * How a table is read in one query: a {@link Planned}. The first arguments are those of {@link Files}, {@code partitions} as JSON;
   * {@code name} is the table's in a catalog, if it has one; {@code within} are the only files that count; {@code version} is -1 where the query has not met the table before.
   */
  Object plan(
      SparkSession session, String key, String metadata, String partitions, String name, String within, long version, String data,
      String output, String condition);

  /** How a change feed is read in one query: a {@link Planned} with rows; {@code range} is that of {@link Changes}, the rest as above. */
  Object changes(SparkSession session, String key, String range, String name, String data, String output, String condition);

  /**
   * The files of a scan: an Arrow stream, as bytes or as the path of a file that holds them. The arguments are those of {@link Files};
   * {@code columns} are the partition columns, joined by zero characters.
   */
  Object files(String key, String metadata, long version, boolean pinned, String selection, String columns, String filters);

  /** The urls of the files of a scan that may be read, joined by zero characters; the arguments are those of {@link Files}. */
  Object inputs(String key, String metadata, long version, boolean pinned, String selection);

  /** The number of the newest version. */
  Object newest(String key);

  /** The schema of the data files for a schema of the table, as JSON. */
  Object physical(String table, String schema);

  /** The {@link Entry} of a table, at a version ("version 3", "timestamp 1700000000000000", or nothing for the newest). */
  Object entry(SparkSession session, String location, String at);

  /** Whether there is a table at a path. */
  Object exists(SparkSession session, String path);

  /** Whether a name in a statement is of a Delta table; {@code name} are its parts, joined by zero characters. */
  Object isDelta(SparkSession session, String name);

  /** Whether the session lets MERGE evolve the schema. */
  Object autoMerges(SparkSession session);

  /** What to run instead of a command: a plan, or nothing to let it run. */
  Object command(SparkSession session, String name, LogicalPlan plan);

  /** Run the plan of a {@link Command}; the answer is a Seq of rows. */
  Object run(SparkSession session, LogicalPlan plan);

  /**
   * The plan of a statement that Spark's parser does not know; null for any other SQL. {@code parameters} are those of the query, Spark's
   * ParameterContext, or null.
   */
  Object statement(ParserInterface beneath, String text, Object parameters);

  /** Run a {@link Statement}; the answer is a Seq of rows. */
  Object perform(SparkSession session, String text, Seq values, Object condition);

  /** The rows of a {@link TableFunction}: a Dataset. */
  Object rowsOf(SparkSession session, String function, Seq arguments);

  /** {@code DataFrameWriter.save}: the answer is the relation written to. */
  Object save(SparkSession session, String mode, Map options, scala.collection.immutable.Map given, Dataset data);

  /** {@code read} or {@code write} a table as a stream, by its path or its name, which may be null. */
  Object stream(String operation, String table);

  /** {@code INSERT INTO} a temporary view over a table. */
  Object insert(SparkSession session, Files files, Dataset data, boolean overwrite);

  /** The properties of a table as a map of texts, with those under which Spark's statements tell what else there is. */
  Object properties(SparkSession session, DefinedTable table);

  /** Change what a table is. */
  Object alter(SparkSession session, DefinedTable table, TableChange[] changes);

  /** Create a table, or replace it, without rows. */
  Object create(SparkSession session, Staged table);
}
