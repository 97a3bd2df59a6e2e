package delta;

import java.util.concurrent.Callable;
import org.apache.spark.unsafe.Platform;
import scala.runtime.AbstractFunction0;

/** Work of Python's within an execution of Spark's, which ends as the work does. */
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
