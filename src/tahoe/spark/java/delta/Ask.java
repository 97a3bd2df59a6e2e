package delta;

import org.apache.spark.unsafe.Platform;

/** Where Python is, and what becomes of its answers: an error comes back as a value, so that the user sees it and no trace of a proxy. */
public class Ask {
  public static Python python;

  private Ask() { }

  public static Object answer(Object answer) {
    if (answer instanceof Throwable) Platform.throwException((Throwable) answer);
    return answer;
  }
}
