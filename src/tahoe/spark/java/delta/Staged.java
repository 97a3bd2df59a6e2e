package delta;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** A table that a statement is about to create or replace. What the statement writes and the table itself are one commit, made by Python. */
public class Staged extends WriteTable implements StagedTable {
  private final String mode;
  private final Identifier identifier;
  private boolean made;

  /**
   * @param mode create, replace, or create or replace
   * @param path where the table is, or null for one that has a name in the session's catalog
   */
  public Staged(String mode, String path, Identifier identifier, Column[] columns, Transform[] partitioning, Map properties) {
    super(new Described(identifier.toString(), columns, partitioning, properties), path);
    this.mode = mode;
    this.identifier = identifier;
  }

  public String mode() { return mode; }
  public Identifier identifier() { return identifier; }

  /** To be called when a commit has made the table. */
  public void setMade() { made = true; }

  public void commitStagedChanges() {
    if (!made) Ask.answer(Ask.python.create(SparkSession.active(), this));
  }

  public void abortStagedChanges() { }

  /** What the statement says of the table. */
  public static class Described implements Table {
    private final String name;
    private final Column[] columns;
    private final Transform[] partitioning;
    private final Map properties;

    public Described(String name, Column[] columns, Transform[] partitioning, Map properties) {
      this.name = name;
      this.columns = columns;
      this.partitioning = partitioning;
      this.properties = properties;
    }

    public String name() { return name; }
    public Column[] columns() { return columns; }
    public StructType schema() { return CatalogV2Util.v2ColumnsToStructType(columns); }
    public Transform[] partitioning() { return partitioning; }
    public Map properties() { return properties; }
    public Set capabilities() { return Collections.emptySet(); }
  }
}
