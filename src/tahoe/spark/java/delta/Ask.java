package delta;

import org.apache.spark.unsafe.Platform;
import py4j.GatewayServer;

/**
 * Holds the {@link Python} of this JVM, and throws its errors. Python returns an error as a value, because py4j would replace a raised one
 * with an exception of its own.
 */
public class Ask {
  public static Python python;

  private Ask() { }

  /** Called by {@code session.enable}. {@code server} is the py4j server through which Java calls Python. */
  public static void install(Python given, GatewayServer server) { python = Connections.shared(given, server); }

  /** Returns an answer of Python's, or throws it if it is a Throwable. */
  public static Object answer(Object answer) {
    if (answer instanceof Throwable) Platform.throwException((Throwable) answer);
    return answer;
  }
}
