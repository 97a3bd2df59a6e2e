package delta;

import org.apache.spark.sql.types.StructType;

/**
 * The file index of a change data feed. It lists no files: it identifies the feed until {@link Rewrite} replaces its relation with a plan,
 * because a list of files cannot say which of their rows changed. Python: {@code change_feed.plan_change_feed}.
 */
public class Changes extends Files {
  /**
   * @param version the last version of the feed
   * @param range the encoded {@code scan.Selection} with the feed's range of versions
   */
  public Changes(String key, long version, String range, long bytes) { super(key, "", version, true, range, null, new StructType(), bytes, ""); }

  public boolean planned() { return false; }

  public String toString() { return "Delta[changes to version " + version() + ", " + table() + "]"; }
}
