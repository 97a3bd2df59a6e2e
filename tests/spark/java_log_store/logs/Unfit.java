package logs;

import io.delta.storage.LogStore;
import org.apache.hadoop.conf.Configuration;

/** Classes that cannot be called. */
public class Unfit {
  public abstract static class Abstract extends LogStore {
    public Abstract(Configuration hadoop) { super(hadoop); }
  }

  public static class WithoutConfiguration extends ElsewhereLogStore {
    public WithoutConfiguration() { super(new Configuration()); }
  }
}
