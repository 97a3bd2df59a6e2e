package delta;

import org.apache.spark.sql.types.StructType;

/** The change feed of a table over some versions. The rule of an enabled session replaces it by a plan: no list of files says which rows. */
public class Changes extends Files {
  /**
   * @param version the last one
   * @param range which feed it is, in Python's words
   */
  public Changes(String key, long version, String range, long bytes) { super(key, "", version, true, range, null, new StructType(), bytes, ""); }

  public boolean planned() { return false; }

  public String toString() { return "Delta[changes to version " + version() + ", " + table() + "]"; }
}
