package delta.connect;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.Status;

/**
 * Every call of a client of Spark Connect passes here. Once the server shuts down, calls that bring work are refused. Calls about work that
 * is running are not: a client must fetch its results, and attaches again to a query that takes minutes.
 */
public class Entrance implements ServerInterceptor {
  private static final Set BRING_WORK = new HashSet(Arrays.asList(new String[] {
      "ExecutePlan", "AnalyzePlan", "AddArtifacts", "CloneSession" }));

  /** Why work is refused; null while it is not. */
  public static volatile String closed;

  public static void close(String reason) { closed = reason; }

  public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
    String reason = closed;
    if (reason == null || !BRING_WORK.contains(call.getMethodDescriptor().getBareMethodName())) return next.startCall(call, headers);
    call.close(Status.FAILED_PRECONDITION.withDescription(reason), new Metadata());
    return new Refused();
  }

  /** Listens to a call that was refused. */
  private static class Refused extends ServerCall.Listener { }
}
