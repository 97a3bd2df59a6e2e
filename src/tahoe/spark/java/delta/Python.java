package delta;

import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.TableChange;
import scala.collection.immutable.Seq;

/**
 * All calls from Java to Python. {@code tahoe.spark.api.source.Source} implements it and passes each call on to the function that is named
 * below. The Python modules in the comments of this package are those of {@code tahoe.spark}. An answer that is a {@link Throwable} is an
 * error, which {@link Ask} throws.
 */
public interface Python {
  /**
   * {@code reading.planning.relation}: a {@link Relation} for the options of a reader, or of a catalog's table. {@code given} are the same
   * options as the map that Spark passed.
   */
  Object relation(SparkSession session, Map options, scala.collection.immutable.Map given);

  /**
   * {@code reading.planning.plan_scan}: how one query reads a table, a {@link Planned}. {@code key}, {@code metadata} and {@code within} are
   * those of {@link Files}.
   *
   * @param partitions the partition columns, as a schema's JSON
   * @param name the table's name in a catalog, or empty
   * @param version the version that the query already reads; -1 if there is none
   * @param data the relation's schema after pruning, as JSON
   * @param output the relation's columns that the query uses, as a schema's JSON
   * @param condition the filters on the relation, from {@link Files#json}
   * @param limit of the rows that the query needs, from {@link Limit#json}, or empty
   * @param options of the relation
   */
  Object plan(
      SparkSession session, String key, String metadata, String partitions, String name, String within, long version, String data,
      String output, String condition, String limit, Map options);

  /**
   * {@code reading.planning.answer}: what the log says of an aggregation over a table, an {@link Answered}. The other arguments are those of
   * {@link #plan}.
   *
   * @param options of the relation
   * @param asked the aggregation, from {@link Question#json}
   */
  Object answer(
      SparkSession session, String key, String metadata, String partitions, String name, long version, Map options, String data,
      String output, String condition, String asked);

  /**
   * {@code reading.joins.prunings}: which scans leave out files by the keys of joins, empty for none; see {@link Joins}.
   *
   * @param told the joins as JSON
   */
  Object joins(SparkSession session, String told);

  /**
   * {@code reading.joins.ordinals_without}: the places ({@code scan.FILE_ORDINAL}) of the files of a scan that have none of the keys, as the bytes of
   * ascending numbers. The other arguments are those of {@link Files}.
   *
   * @param column the column with the keys, from {@link #joins}
   * @param keys an Arrow stream of one column
   */
  Object ordinalsWithout(String key, String metadata, long version, String selection, String column, byte[] keys);

  /**
   * {@code reading.change_feed.plan_change_feed}: how one query reads a change data feed, a {@link Planned} with rows. {@code range} is that of
   * {@link Changes}; the other arguments are those of {@link #plan}.
   */
  Object changes(SparkSession session, String key, String range, String name, String data, String output, String condition);

  /**
   * {@code reading.scan.files_message}: the files of a scan as an Arrow stream, either its bytes or the path of a file, which the caller
   * deletes. The arguments are those of {@link Files}, the names of the partition columns, separated by NUL, and filters from
   * {@link Files#json}.
   */
  Object files(String key, String metadata, long version, boolean pinned, String selection, String columns, String filters);

  /** {@code reading.scan.input_files}: the urls of a scan's files, separated by NUL. The arguments are those of {@link Files}. */
  Object inputs(String key, String metadata, long version, boolean pinned, String selection);

  /** {@code jvm.table_cache.table_of_key}: the newest version of a table. */
  Object newest(String key);

  /** {@code reading.data_files.physical_schema_json}: the schema of columns in the files. {@code table}: see {@link Format}. */
  Object physical(String table, String schema);

  /**
   * {@code ddl.catalog.entry}: the {@link Entry} of a table. {@code at} is "version 3", "timestamp 1700000000000000" (in microseconds),
   * "newest" if the table is to be written, or empty for the newest version.
   */
  Object entry(SparkSession session, String location, String at);

  /** {@code ddl.catalog.path_exists}: whether there is a Delta table at a path. */
  Object exists(SparkSession session, String path);

  /**
   * {@code jvm.attached_catalogs.table_url}: the folder of a table of an {@link AttachedCatalog}; null if there is none. Here and below,
   * {@code schema} is a namespace whose parts are separated by NUL.
   */
  Object attachedTable(SparkSession session, String catalog, String schema, String table);

  /** {@code jvm.attached_catalogs.tables}: the names of a schema's tables, separated by NUL. */
  Object attachedTables(SparkSession session, String catalog, String schema);

  /** {@code ddl.views.told}: a view of an attached catalog, as JSON; null if there is none. */
  Object attachedView(SparkSession session, String catalog, String schema, String view);

  /** {@code ddl.views.names}: the names of a schema's views, separated by NUL. */
  Object attachedViews(SparkSession session, String catalog, String schema);

  /** {@code ddl.views.make}: makes or replaces a view, which is told as JSON. Returns whether its name was free, or that of a view to replace. */
  Object makeView(SparkSession session, String catalog, String schema, String view, String told, boolean replaces);

  /** {@code ddl.views.drop}: returns whether there was one. */
  Object dropView(SparkSession session, String catalog, String schema, String view);

  /** {@code jvm.attached_catalogs.schemas}: the names of a catalog's schemas, separated by NUL. */
  Object attachedSchemas(SparkSession session, String catalog);

  /** {@code ddl.table_names}: these change the names of a catalog. {@code comment} may be null. */
  Object createSchema(SparkSession session, String catalog, String schema, String comment);
  Object dropSchema(SparkSession session, String catalog, String schema, boolean cascade);
  Object dropAttached(SparkSession session, String catalog, String schema, String table);
  Object renameAttached(SparkSession session, String catalog, String schema, String table, String newSchema, String newTable);

  /** {@code ddl.catalog.names_delta_table}: whether a name in a statement is of a Delta table. {@code name}: its parts, separated by NUL. */
  Object isDelta(SparkSession session, String name);

  /** {@code writing.write_options.has_auto_merge}: whether a session setting lets MERGE evolve the schema. */
  Object autoMerges(SparkSession session);

  /**
   * {@code api.changes_clause.rows_of}: the rows of a CHANGES clause, a Dataset; null if it is not about a Delta table. {@code home}: the
   * catalog and database of the view that has the clause, separated by NUL, or empty.
   */
  Object changesClause(SparkSession session, String home, LogicalPlan changes);

  /** {@code api.commands.instead_of}: the plan to run instead of a command; null to run the command itself. */
  Object command(SparkSession session, String name, LogicalPlan plan);

  /** {@code ddl.guard.check_read}: refuses to read a folder as Parquet that is the folder of a table, unless the session says so. */
  Object readsFiles(SparkSession session, String path, String table);

  /** {@code ddl.guard.refuse_path}: refuses to {@code drop} or {@code rename} a path. */
  Object refusesPath(String kind, String path);

  /** {@code api.commands.run_command}: runs the statement of a {@link Command}. Returns a Seq of rows. */
  Object run(SparkSession session, LogicalPlan plan);

  /**
   * {@code api.statements.plan_statement}: the plan of a Delta statement; null for any other SQL. {@code parameters} are the query's, a
   * ParameterContext of Spark's, or null.
   */
  Object statement(ParserInterface beneath, String text, Object parameters);

  /** {@code api.statements.perform}: runs a {@link Statement}, with its values resolved. Returns a Seq of rows. */
  Object perform(SparkSession session, String text, Seq values, Object condition);

  /** {@code api.statements.explain}: what a {@link Statement} would do, as a text. */
  Object explain(SparkSession session, String text, Seq values, Object condition);

  /** {@code api.table_functions.rows_of}: the rows of a {@link TableFunction}, a Dataset. */
  Object rowsOf(SparkSession session, String function, String home, Seq arguments);

  /** {@code api.commands.save}: runs {@code DataFrameWriter.save}. Returns the relation of the table after the write. */
  Object save(SparkSession session, String mode, Map options, scala.collection.immutable.Map given, Dataset data);

  /** {@code streams.source.schema}: the version and, on a second line, the schema of a table that is read as a stream, as JSON. */
  Object streamSchema(SparkSession session, Map options);

  /**
   * {@code streams.source.metadata_relation}: the {@link Relation} of a table that is read as a stream, for its {@code _metadata}; null if it has
   * none. {@code alone}: whether the query reads nothing else.
   */
  Object streamRelation(SparkSession session, Map options, scala.collection.immutable.Map given, boolean alone);

  /**
   * {@code streams.source.open_source}: a {@link StreamSource} for the options of a reader. {@code given} are the same options as the map that
   * Spark passed. {@code checkpoint}: the folder of the source in the query's checkpoint. {@code analysed}: the answer of
   * {@link #streamSchema} for the query's DataFrame, or null. {@code query}: the id of the query. The methods below name the source by its
   * id.
   */
  Object streamSource(
      SparkSession session, Map options, scala.collection.immutable.Map given, String checkpoint, String analysed, String query);

  /** {@code streams.source}: the stream ends at the newest version that exists when {@link #streamEnd} is called next. */
  Object streamUntilNow(String id);

  /**
   * {@code streams.source}: the end of the batch after an offset, as JSON; null if there is nothing to read yet. {@code files} and
   * {@code bytes} limit the batch, -1 does not.
   */
  Object streamEnd(String id, String start, long files, long bytes);

  /** {@code streams.source}: the rows between two offsets, a streaming Dataset. {@code start} is null for the first batch. */
  Object streamBatch(String id, String start, String end);

  /** {@code streams.source}: everything up to an offset is processed. */
  Object streamCommitted(String id, String end);

  /** {@code streams.source}: the offset of everything that was seen in the log, as JSON. */
  Object streamNewest(String id);

  /** {@code streams.source}: what is left to read after an offset, a Map of strings. */
  Object streamMetrics(String id, String consumed);

  /** {@code streams.source}: the query has ended. */
  Object streamStopped(String id);

  /** {@code streams.sink.check_sink}: refuses a sink before its query starts. {@code mode}: Append, Complete or Update. */
  Object streamSink(SparkSession session, Map options, String mode);

  /** {@code streams.sink.write_microbatch}: writes a batch of a query. {@code partitions}: the columns of partitionBy, separated by NUL. */
  Object streamWrite(SparkSession session, Map options, String partitions, String mode, String query, long batch, Dataset rows);

  /**
   * {@code api.commands.insert}: runs INSERT INTO a temporary view over a table. {@code selection} is null unless the view is over a change
   * feed.
   */
  Object insert(SparkSession session, String table, String selection, Dataset data, boolean overwrite);

  /** {@code ddl.show_describe.properties}: a table's properties, with Spark's reserved ones, as a Map of strings. */
  Object properties(SparkSession session, DefinedTable table);

  /** {@code ddl.show_describe.constraints}: a table's keys and CHECK constraints, as an array of Spark's Constraints. */
  Object constraints(SparkSession session, DefinedTable table);

  /** {@code ddl.alter_table.alter}: runs ALTER TABLE. */
  Object alter(SparkSession session, DefinedTable table, TableChange[] changes);

  /** {@code api.commands.create}: creates or replaces a table without rows. */
  Object create(SparkSession session, Staged table);

  /**
   * {@code api.connect_answers.plan}: the plan of a relation that a client of Spark Connect sends; null if the message is not ours.
   *
   * @param planner Spark's planner of the client's query, which knows what the plans and expressions in the message mean
   * @param message a protobuf message, {@code google.protobuf.Any}
   */
  Object clientRelation(SparkSession session, Object planner, byte[] message);

  /** {@code api.connect_answers.run}: runs a command that a client of Spark Connect sends. Returns whether the message is ours. */
  Object clientCommand(SparkSession session, byte[] message);
}
