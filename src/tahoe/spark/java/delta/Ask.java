package delta;

import org.apache.spark.unsafe.Platform;
import py4j.GatewayServer;

/** Where Python is, and what becomes of its answers: an error comes back as a value, so that the user sees it and no trace of a proxy. */
public class Ask {
  public static Python python;

  private Ask() { }

  /** @param server of py4j, through which Python is asked */
  public static void install(Python given, GatewayServer server) { python = Connections.shared(given, server); }

  public static Object answer(Object answer) {
    if (answer instanceof Throwable) Platform.throwException((Throwable) answer);
    return answer;
  }
}
