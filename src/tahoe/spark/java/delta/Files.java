package delta;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The file index of a Delta table, which Spark's file scan asks for files. Spark keeps it when it copies a relation, so it also identifies
 * the relations of Delta tables, see {@link #of}. Python: {@code scan.files_message}, {@code scan.input_files}.
 *
 * <p>If it is not pinned, each query reads the version that is the newest when it is planned, and {@code version} is the newest that was
 * seen. The version counts in {@code equals}, so that Spark does not use the cached rows of an older version.
 */
public class Files implements FileIndex {
  private static final int PATH = 0;
  private static final int SIZE = 1;
  private static final int MODIFIED = 2;
  private static final int PARTITION = 3;

  /** What Spark is told for the block size of a file; its splits do not depend on it. */
  static final long BLOCK_BYTES = 128L << 20;

  /** The hidden partition column {@code scan.FILE_ORDINAL}. */
  static final String FILE_ORDINAL = "__tahoe_file_ordinal";

  private final String key;
  private final String table;
  private final String metadata;
  private final boolean pinned;
  private final String selection;
  private final String within;
  private final StructType partitions;
  private final long bytes;
  private final String label;
  private volatile long version;

  /**
   * @param key the table's url and, after a NUL, a hash of the reader's storage options if it has any ({@code table_cache.key_of})
   * @param metadata identifies schema, partitioning and column mapping at analysis ({@code table_cache.metadata_identity})
   * @param pinned whether the user asked for this version, or a query was planned with it
   * @param selection the encoded {@code scan.Selection}: which files of the version a planned scan reads; null before planning
   * @param within limits the files to given numbers in one snapshot ({@code table_cache.within_text}); null for all files
   * @param partitions the partition columns, with hidden ones that are constant per file
   * @param bytes the size that Spark's optimizer sees
   * @param label the name of the scan in Spark's plans and UI
   */
  public Files(
      String key, String metadata, long version, boolean pinned, String selection, String within, StructType partitions, long bytes,
      String label) {
    int end = key.indexOf('\u0000');
    this.key = key;
    this.table = end < 0 ? key : key.substring(0, end);
    this.metadata = metadata;
    this.version = version;
    this.pinned = pinned;
    this.selection = selection;
    this.within = within;
    this.partitions = partitions;
    this.bytes = bytes;
    this.label = label;
  }

  public String key() { return key; }
  public String table() { return table; }
  public String metadata() { return metadata; }
  public long version() { return version; }
  public boolean pinned() { return pinned; }
  public String selection() { return selection; }
  public String within() { return within; }
  public boolean planned() { return selection != null; }

  /** A copy for listing partition values. It counts as planned, so that Python also lists files with deletion vectors. */
  Files withoutRows() { return new Files(key, metadata, version, pinned, "", within, partitions, bytes, label); }

  /** A copy that each query reads at the version that is the newest now. */
  Files asOfNow() { return asOf(newest()); }

  /** A copy that each query reads at a version with the same columns. */
  Files asOf(long version) { return new Files(key, metadata, version, true, selection, within, partitions, bytes, label); }

  /** A copy with the hidden partition column that tells the files apart. */
  Files withOrdinals() {
    StructType columns = partitions.add(FILE_ORDINAL, LongType$.MODULE$);
    return new Files(key, metadata, version, pinned, selection, within, columns, bytes, label);
  }

  boolean hasOrdinals() { return Arrays.asList(partitions.fieldNames()).contains(FILE_ORDINAL); }

  /** Whether a plan or a subquery in it reads a table, given by url, without time travel. No writer can change a past version. */
  public static boolean areRead(LogicalPlan plan, String table) {
    if (areInLeaves(plan, table)) return true;
    for (scala.collection.Iterator it = plan.subqueriesAll().iterator(); it.hasNext(); ) {
      if (areInLeaves((LogicalPlan) it.next(), table)) return true;
    }
    return false;
  }

  private static boolean areInLeaves(LogicalPlan plan, String table) {
    for (scala.collection.Iterator it = plan.collectLeaves().iterator(); it.hasNext(); ) {
      Files files = of((LogicalPlan) it.next());
      if (files != null && files.table.equals(table) && !files.isTimeTravel()) return true;
    }
    return false;
  }

  /** The file index of a leaf that reads a Delta table; null for any other leaf. */
  public static Files of(LogicalPlan leaf) {
    if (!(leaf instanceof LogicalRelation) || !(((LogicalRelation) leaf).relation() instanceof HadoopFsRelation)) return null;
    FileIndex index = ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location();
    return index instanceof Files ? (Files) index : null;
  }

  /** The leaf that reads the rows of a table as they are now or were at a version, not planned yet; null for any other node. */
  static LogicalRelation unplannedRows(LogicalPlan node) {
    Files files = of(node);
    boolean isOfAll = files != null && !files.planned() && !(files instanceof Changes) && files.within() == null;
    return isOfAll && !node.isStreaming() ? (LogicalRelation) node : null;
  }

  /** Whether an expression is about columns that the data files of a leaf have, and has no subquery. */
  static boolean areInFiles(Expression expression, LogicalRelation leaf) {
    for (scala.collection.Iterator it = expression.references().iterator(); it.hasNext(); ) {
      Attribute column = (Attribute) it.next();
      if (!leaf.outputSet().contains(column) || column.metadata().contains(Rewrite.MADE_UP)) return false;
    }
    return !SubqueryExpression.hasSubquery(expression);
  }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    if (within != null && !planned()) throw new IllegalStateException("only a session with tahoe enabled can read a selection of the files of " + table);
    ArrayList conditions = new ArrayList(CollectionConverters.asJava(partitionFilters));
    conditions.addAll(CollectionConverters.asJava(dataFilters));
    String columns = String.join("\u0000", partitions.fieldNames());
    Object answer = Ask.answer(Ask.python.files(key, metadata, version, pinned, selection, columns, json(conditions)));
    // Spark does not apply the partition filters to rows, so they are evaluated exactly here
    BasePredicate keep = predicate(CollectionConverters.asJava(partitionFilters));
    try {
      return answer instanceof byte[] ? read(new ByteArrayInputStream((byte[]) answer), keep) : readFile((String) answer, keep);
    } catch (IOException error) {
      throw new RuntimeException(error);
    }
  }

  /**
   * The {@code toJSON} of conditions as a JSON array, for {@code filters.predicate_of}. Leaves out conditions that are not deterministic or
   * have a subquery, or had one that Spark has left out ({@link MayHold}).
   */
  public static String json(List conditions) {
    StringBuilder text = new StringBuilder();
    for (Iterator it = conditions.iterator(); it.hasNext(); ) {
      Expression condition = (Expression) it.next();
      if (!condition.deterministic() || SubqueryExpression.hasSubquery(condition) || condition instanceof MayHold) continue;
      text.append(text.length() == 0 ? "" : ",").append(Literals.visible(condition).toJSON());
    }
    return "[" + text + "]";
  }

  private Seq readFile(String path, BasePredicate keep) throws IOException {
    InputStream in = java.nio.file.Files.newInputStream(Paths.get(path));
    try {
      return read(in, keep);
    } finally {
      in.close();
      java.nio.file.Files.delete(Paths.get(path));
    }
  }

  private Seq read(InputStream in, BasePredicate keep) throws IOException {
    Map directories = new LinkedHashMap();
    ArrowStreamReader reader = new ArrowStreamReader(in, ArrowUtils.rootAllocator());
    try {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      while (reader.loadNextBatch()) addBatch(root, keep, directories);
    } finally {
      reader.close();
    }
    ArrayList found = new ArrayList();
    for (Iterator it = directories.entrySet().iterator(); it.hasNext(); ) {
      Map.Entry entry = (Map.Entry) it.next();
      FileStatus[] files = (FileStatus[]) ((List) entry.getValue()).toArray(new FileStatus[0]);
      found.add(PartitionDirectory.apply((InternalRow) entry.getKey(), files));
    }
    return CollectionConverters.asScala(found).toSeq();
  }

  private void addBatch(VectorSchemaRoot root, BasePredicate keep, Map directories) {
    int columns = root.getFieldVectors().size();
    ColumnVector[] vectors = new ColumnVector[columns];
    for (int i = 0; i < columns; i++) vectors[i] = new ArrowColumnVector(root.getVector(i));
    ColumnVector[] values = new ColumnVector[columns - PARTITION];
    System.arraycopy(vectors, PARTITION, values, 0, values.length);
    ColumnarBatch batch = new ColumnarBatch(values, root.getRowCount());
    for (int i = 0; i < root.getRowCount(); i++) {
      InternalRow row = values.length == 0 ? InternalRow.empty() : batch.getRow(i).copy();
      if (keep != null && !keep.eval(row)) continue;
      List files = (List) directories.get(row);
      if (files == null) {
        files = new ArrayList();
        directories.put(row, files);
      }
      Path path = path(vectors[PATH].getUTF8String(i).toString());
      files.add(new FileStatus(vectors[SIZE].getLong(i), false, 0, BLOCK_BYTES, vectors[MODIFIED].getLong(i), path));
    }
  }

  /**
   * {@code new Path(url)}. A url of a scheme and plain segments is its own URI, of which Hadoop makes a path in a quarter of the time that
   * it takes to normalise and quote a text.
   */
  public static Path path(String url) { return isPlain(url) ? new Path(URI.create(url)) : new Path(url); }

  /** Whether nothing in a url with a scheme is to be quoted, normalised or left out. */
  private static boolean isPlain(String url) {
    int start = url.indexOf(":/");
    if (start <= 0) return false;
    char before = ' ';
    for (int i = 0; i < url.length(); i++) {
      char c = url.charAt(i);
      boolean isWord = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '=';
      boolean isDot = c == '.' && before != '/' && before != '.';
      boolean isSlash = c == '/' && (before != '/' || i <= start + 3);
      if (!isWord && !isDot && !isSlash && i != start) return false;
      before = c;
    }
    return before != '/';
  }

  /** The filters as one predicate over rows of partition values; null if there are none. */
  private BasePredicate predicate(List filters) {
    if (filters.isEmpty()) return null;
    Expression all = (Expression) filters.get(0);
    for (int i = 1; i < filters.size(); i++) all = new And(all, (Expression) filters.get(i));
    BasePredicate test = Predicate$.MODULE$.create(all, attributes(all));
    test.initialize(0);
    return test;
  }

  /** The attributes by which a filter refers to the partition columns, in the order of the partition schema. */
  private Seq attributes(Expression filter) {
    ArrayList inOrder = new ArrayList();
    for (scala.collection.Iterator it = DataTypeUtils.toAttributes(partitions).iterator(); it.hasNext(); ) {
      Attribute column = (Attribute) it.next();
      for (scala.collection.Iterator used = filter.references().iterator(); used.hasNext(); ) {
        Attribute reference = (Attribute) used.next();
        if (reference.name().equalsIgnoreCase(column.name())) column = reference;
      }
      inOrder.add(column);
    }
    return CollectionConverters.asScala(inOrder).toSeq();
  }

  /** Two paths: Spark's own commands write only to a relation with a single root path, and so cannot write to or delete a table. */
  public Seq rootPaths() {
    ArrayList roots = new ArrayList();
    roots.add(new Path(table));
    roots.add(new Path(table, "_delta_log"));
    return CollectionConverters.asScala(roots).toSeq();
  }

  /** The urls for {@code df.inputFiles()}. */
  public String[] inputFiles() {
    String urls = (String) Ask.answer(Ask.python.inputs(key, metadata, version, pinned, selection));
    return urls.isEmpty() ? new String[0] : urls.split("\u0000");
  }

  /** Moves on to the newest version. Spark calls this before it rebuilds a cached DataFrame. */
  public void refresh() {
    if (!pinned) version = newest();
  }

  private long newest() { return ((Number) Ask.answer(Ask.python.newest(key))).longValue(); }

  public StructType partitionSchema() { return partitions; }
  public long sizeInBytes() { return bytes; }
  public boolean isTimeTravel() { return pinned && !planned(); }
  public String label() { return label; }
  public String toString() { return "Delta[version " + version + ", " + table + "]"; }

  /** Leaves out the version, which {@link #refresh} may change. */
  public int hashCode() { return table.hashCode(); }

  public boolean equals(Object other) {
    if (!(other instanceof Files)) return false;
    Files that = (Files) other;
    return key.equals(that.key)
        && metadata.equals(that.metadata)
        && version == that.version
        && pinned == that.pinned
        && Objects.equals(selection, that.selection)
        && Objects.equals(within, that.within)
        && partitions.equals(that.partitions);
  }
}
