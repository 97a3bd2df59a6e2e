package delta.cache;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Waits for what another thread does. */
class Waiting {
  private Waiting() { }

  /** The result of a future, or its error. */
  static Object on(CompletableFuture future) throws IOException {
    try {
      return future.get();
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw (IOException) new InterruptedIOException("interrupted while waiting for the storage").initCause(interrupt);
    } catch (ExecutionException error) {
      Throwable cause = error.getCause();
      if (cause instanceof IOException) throw (IOException) cause;
      if (cause instanceof RuntimeException) throw (RuntimeException) cause;
      throw new IOException(cause);
    }
  }
}
