package delta;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.util.Arrays;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode$;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode$;
import org.apache.spark.sql.execution.BaseSubqueryExec;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.execution.ReusedSubqueryExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Whether a file may have one of the keys of a join's other side: a filter of a scan over a hidden partition column, which Spark evaluates
 * in the driver when the query runs, once it knows the keys. It is Java because Spark evaluates it. Python: {@code joins.ordinals_without}.
 */
public class MayHold extends Expression implements Serializable {
  private final Expression place;
  private final Expression keys;
  private final Files files;
  private final String column;
  private final String name;
  private final int mostKeys;
  private volatile long[] without;

  /**
   * @param place the hidden partition column {@code scan.FILE_ORDINAL}
   * @param keys Spark's dynamic pruning by the other side's keys: its subquery or, once it is planned, what Spark puts in its place
   * @param files of the scan
   * @param column the table's column, as {@code joins.KeyColumn} encodes it
   * @param name of the column, in plans
   * @param mostKeys if there are more, Python is not asked ({@code joins.KEYS_MAX})
   */
  public MayHold(Expression place, Expression keys, Files files, String column, String name, int mostKeys) {
    this.place = place;
    this.keys = keys;
    this.files = files;
    this.column = column;
    this.name = name;
    this.mostKeys = mostKeys;
  }

  public Object eval(InternalRow row) {
    Object at = place.eval(row);
    return Boolean.valueOf(at == null || Arrays.binarySearch(without(), ((Number) at).longValue()) < 0);
  }

  /** The places of the files that have none of the keys, ascending; none while the keys are not known. */
  private long[] without() {
    if (without == null) {
      InSubqueryExec subquery = subquery(keys);
      if (subquery != null && subquery.values().isEmpty() && !isPlaceholder(subquery.plan())) subquery.updateResult();
      Option values = subquery == null ? Option.empty() : subquery.values();
      without = values.isEmpty() ? new long[0] : without((Object[]) values.get(), subquery.child().dataType());
    }
    return without;
  }

  /**
   * Whether an adaptive plan has yet to put a subquery in the place of this one, which cannot run. Spark runs the others before it asks for
   * files; a native scan has a second filter with a subquery of its own, which nobody runs.
   */
  private static boolean isPlaceholder(BaseSubqueryExec plan) {
    SparkPlan inner = plan instanceof ReusedSubqueryExec ? ((ReusedSubqueryExec) plan).child() : plan;
    return inner.getClass().getSimpleName().endsWith("AdaptiveBroadcastExec");
  }

  private static InSubqueryExec subquery(Expression node) {
    if (node instanceof InSubqueryExec) return (InSubqueryExec) node;
    return node.children().size() == 1 ? subquery((Expression) node.children().apply(0)) : null;
  }

  private long[] without(Object[] values, DataType type) {
    if (values.length > mostKeys) return new long[0];
    byte[] found = (byte[]) Ask.answer(Ask.python.ordinalsWithout(
        files.key(), files.metadata(), files.version(), files.selection(), column, message(values, type)));
    long[] places = new long[found.length / Long.BYTES];
    ByteBuffer.wrap(found).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(places);
    return places;
  }

  /** The keys as an Arrow stream of one column. */
  private static byte[] message(Object[] values, DataType type) {
    ArrowWriter writer = ArrowWriter.create(new StructType().add("key", type), "UTC", true, false);
    VectorSchemaRoot root = writer.root();
    try {
      for (int i = 0; i < values.length; i++) writer.write(new GenericInternalRow(new Object[] {values[i]}));
      writer.finish();
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      ArrowStreamWriter stream = new ArrowStreamWriter(root, null, Channels.newChannel(out));
      stream.start();
      stream.writeBatch();
      stream.end();
      return out.toByteArray();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    } finally {
      root.close();
    }
  }

  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    String self = context.addReferenceObj("mayHold", this, Expression.class.getName());
    String call = "((Boolean) " + self + ".eval(" + context.INPUT_ROW() + "))";
    return ExprCode$.MODULE$.forNonNullValue(JavaCode$.MODULE$.expression(call, BooleanType$.MODULE$));
  }

  /**
   * Spark sends plans to executors with tasks that do not evaluate it, and executors do not have this class. Not private, because Janino
   * renames private methods.
   */
  public Object writeReplace() { return Literal$.MODULE$.TrueLiteral(); }

  /** Whatever the plan that finds the keys uses: it has the same keys each time. */
  public boolean deterministic() { return true; }

  public boolean nullable() { return false; }
  public DataType dataType() { return BooleanType$.MODULE$; }

  public String toString() {
    InSubqueryExec subquery = subquery(keys);
    return "files that may have " + name + " in " + (subquery == null ? keys.toString() : subquery.plan().name());
  }

  public String sql() { return toString(); }

  // --- a tree

  public Seq children() { return CollectionConverters.asScala(Arrays.asList(new Object[] {place, keys})).toSeq(); }

  public Expression withNewChildrenInternal(IndexedSeq children) {
    return new MayHold((Expression) children.apply(0), (Expression) children.apply(1), files, column, name, mostKeys);
  }

  public int productArity() { return 5; }

  public Object productElement(int n) { return n == 0 ? place : n == 1 ? keys : n == 2 ? (Object) files : n == 3 ? column : name; }

  public boolean canEqual(Object other) { return other instanceof MayHold; }

  public int hashCode() { return files.hashCode() * 31 + column.hashCode(); }

  public boolean equals(Object other) {
    if (!(other instanceof MayHold)) return false;
    MayHold that = (MayHold) other;
    return place.equals(that.place) && keys.equals(that.keys) && files.equals(that.files) && column.equals(that.column);
  }
}
