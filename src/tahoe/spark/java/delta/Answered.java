package delta;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Paths;
import java.util.ArrayList;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Python's answer to {@link Python#answer}: what the log says of an aggregation, and how the other files are read. */
public class Answered {
  private final long version;
  private final Object message;
  private final String keys;
  private final String combined;
  private final boolean whole;
  private final String label;
  private final Planned rest;

  /**
   * @param message the rows as an Arrow stream, its bytes or the path of a file, which is deleted; null if the log does not answer
   * @param keys the names of the partition columns with which each row begins, separated by NUL
   * @param combined for each function of the {@link Question}, 1 if the rows have its values, else 0
   * @param whole whether the rows are the result
   * @param label the name of the rows in Spark's plans and UI
   * @param rest how the files are read that the log does not answer; null if there are none
   */
  public Answered(long version, Object message, String keys, String combined, boolean whole, String label, Planned rest) {
    this.version = version;
    this.message = message;
    this.keys = keys;
    this.combined = combined;
    this.whole = whole;
    this.label = label;
    this.rest = rest;
  }

  public long version() { return version; }
  public boolean answers() { return message != null; }
  public boolean whole() { return whole; }
  public String label() { return label; }
  public Planned rest() { return rest; }
  String[] keys() { return keys.isEmpty() ? new String[0] : keys.split("\u0000"); }
  boolean combines(int function) { return combined.charAt(function) == '1'; }

  /** The rows: first the keys, then the values of the combined functions. As bytes they are sent to tasks in a tenth of the time. */
  ArrayList rows(StructType schema) {
    final UnsafeProjection projection = UnsafeProjection$.MODULE$.create(schema);
    final ArrayList rows = new ArrayList();
    try {
      each(message, new Each() {
        public void row(InternalRow row) { rows.add(projection.apply(row).copy()); }
      });
    } catch (IOException error) {
      throw new RuntimeException(error);
    }
    return rows;
  }

  /** Takes rows one after the other; a row is valid only during the call. */
  interface Each { void row(InternalRow row); }

  /** Reads a message of {@code scan.message_of}: an Arrow stream, its bytes or the path of a file, which is deleted. */
  static void each(Object message, Each each) throws IOException {
    if (message instanceof byte[]) {
      read(new ByteArrayInputStream((byte[]) message), each);
      return;
    }
    InputStream in = java.nio.file.Files.newInputStream(Paths.get((String) message));
    try {
      read(in, each);
    } finally {
      in.close();
      java.nio.file.Files.delete(Paths.get((String) message));
    }
  }

  private static void read(InputStream in, Each each) throws IOException {
    ArrowStreamReader reader = new ArrowStreamReader(in, ArrowUtils.rootAllocator());
    try {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      while (reader.loadNextBatch()) {
        ColumnVector[] columns = new ColumnVector[root.getFieldVectors().size()];
        for (int i = 0; i < columns.length; i++) columns[i] = new ArrowColumnVector(root.getVector(i));
        ColumnarBatch batch = new ColumnarBatch(columns, root.getRowCount());
        for (int i = 0; i < root.getRowCount(); i++) each.row(batch.getRow(i));
      }
    } finally {
      reader.close();
    }
  }
}
