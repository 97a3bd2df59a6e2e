package delta;

import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.LongAccumulator;

/** An accumulator of one scan that adds to a total. Executors get a plain one of Spark's: they do not have this class. */
public class Counter extends LongAccumulator {
  private final AtomicLong total;

  Counter(AtomicLong total) { this.total = total; }

  public LongAccumulator copy() { return new LongAccumulator(); }

  public void merge(AccumulatorV2 other) {
    super.merge(other);
    total.addAndGet(((LongAccumulator) other).sum());
  }
}
