package delta;

/** Which provider and which names are Delta's. {@code tahoe.spark.ddl.catalog} has the same rules for Python, and one test checks both. */
public class Names {
  static final String DELTA = "delta";

  private Names() { }

  /** @param provider of a statement's USING or of a catalog's entry; null if there is none */
  public static boolean isDelta(String provider) { return DELTA.equalsIgnoreCase(provider); }

  /** Whether a name in the catalog {@code delta} is a path, as in delta.`/data/t`, and not a table of the database {@code delta}. */
  public static boolean isPath(String[] namespace, String name) { return namespace.length == 0 && name.indexOf('/') >= 0; }
}
