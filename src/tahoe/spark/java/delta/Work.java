package delta;

import java.util.concurrent.Callable;
import org.apache.spark.unsafe.Platform;
import scala.runtime.AbstractFunction0;

/**
 * A Python callback as the body of a SQL execution of Spark's, which takes a Scala function. It throws the error that the callback returns,
 * so that the execution fails too. {@code jvm.file_writer} creates it.
 */
public class Work extends AbstractFunction0 {
  private final Callable work;

  public Work(Callable work) { this.work = work; }

  public Object apply() {
    try {
      return Ask.answer(work.call());
    } catch (Exception error) {
      Platform.throwException(error);
      return null;
    }
  }
}
