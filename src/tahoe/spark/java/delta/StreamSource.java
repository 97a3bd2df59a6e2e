package delta;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * A Delta table as the source of one query. Python decides where batches end and which files they read; offsets are JSON that Python writes
 * and reads. Python: {@code streams.source}.
 */
public class StreamSource implements Source, SupportsAdmissionControl, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final long NONE = -1;

  private final String id;
  private final StructType schema;
  private final String name;
  private final long files;
  private final long bytes;

  /** Called by {@code streams.source.open_source}. {@code files} and {@code bytes} are the limits that the options set; -1 if they set none. */
  public StreamSource(String id, StructType schema, String name, long files, long bytes) {
    this.id = id;
    this.schema = schema;
    this.name = name;
    this.files = files;
    this.bytes = bytes;
  }

  public StructType schema() { return schema; }

  public ReadLimit getDefaultReadLimit() {
    if (files == NONE) return bytes == NONE ? ReadLimit.allAvailable() : ReadLimit.maxBytes(bytes);
    if (bytes == NONE) return ReadLimit.maxFiles((int) files);
    return ReadLimit.compositeLimit(new ReadLimit[] {ReadLimit.maxBytes(bytes), ReadLimit.maxFiles((int) files)});
  }

  public void prepareForTriggerAvailableNow() { Ask.answer(Ask.python.streamUntilNow(id)); }

  public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
      org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
    long[] most = new long[] {NONE, NONE};
    add(limit, most);
    Object json = Ask.answer(Ask.python.streamEnd(id, start == null ? null : start.json(), most[0], most[1]));
    return json == null ? null : new At((String) json);
  }

  /** Adds a limit to the numbers of files and of bytes. */
  private static void add(ReadLimit limit, long[] most) {
    if (limit instanceof ReadMaxFiles) {
      most[0] = ((ReadMaxFiles) limit).maxFiles();
    } else if (limit instanceof ReadMaxBytes) {
      most[1] = ((ReadMaxBytes) limit).maxBytes();
    } else if (limit instanceof CompositeReadLimit) {
      ReadLimit[] limits = ((CompositeReadLimit) limit).getReadLimits();
      for (int i = 0; i < limits.length; i++) add(limits[i], most);
    } else if (!(limit instanceof ReadAllAvailable)) {
      throw new UnsupportedOperationException("A Delta table cannot be read with the limit " + limit);
    }
  }

  /** Spark does not call this, because the source has limits. */
  public Option getOffset() { throw new UnsupportedOperationException(); }

  public Dataset getBatch(Option start, Offset end) {
    String from = start.isEmpty() ? null : ((Offset) start.get()).json();
    return (Dataset) Ask.answer(Ask.python.streamBatch(id, from, end.json()));
  }

  /** Spark calls it before the next batch, when everything up to the offset is processed. */
  public void commit(Offset end) { Ask.answer(Ask.python.streamCommitted(id, end.json())); }

  public org.apache.spark.sql.connector.read.streaming.Offset reportLatestOffset() {
    Object json = Ask.answer(Ask.python.streamNewest(id));
    return json == null ? null : new At((String) json);
  }

  public Map metrics(Optional consumed) {
    Object last = consumed.isPresent() ? consumed.get() : null;
    String json = last == null ? null : ((org.apache.spark.sql.connector.read.streaming.Offset) last).json();
    return (Map) Ask.answer(Ask.python.streamMetrics(id, json));
  }

  public void stop() { Ask.answer(Ask.python.streamStopped(id)); }

  public String toString() { return name; }

  /** An offset. Spark compares offsets with those that it has read from a checkpoint, by their JSON. */
  public static class At extends Offset {
    private final String json;
    public At(String json) { this.json = json; }
    public String json() { return json; }
  }
}
