package delta;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
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
    /** Where a column's values come from stands in its metadata, under the names that the log has for it. */
    public StructType schema() {
      StructField[] fields = CatalogV2Util.v2ColumnsToStructType(columns).fields();
      for (int i = 0; i < fields.length; i++) {
        MetadataBuilder metadata = new MetadataBuilder().withMetadata(fields[i].metadata());
        if (columns[i].generationExpression() != null) metadata.putString("delta.generationExpression", columns[i].generationExpression());
        IdentityColumnSpec numbers = columns[i].identityColumnSpec();
        if (numbers != null)
          metadata.putLong("delta.identity.start", numbers.getStart()).putLong("delta.identity.step", numbers.getStep())
              .putBoolean("delta.identity.allowExplicitInsert", numbers.isAllowExplicitInsert());
        fields[i] = new StructField(fields[i].name(), fields[i].dataType(), fields[i].nullable(), metadata.build());
      }
      return new StructType(fields);
    }

    public Transform[] partitioning() { return partitioning; }
    public Map properties() { return properties; }
    public Set capabilities() { return Collections.emptySet(); }
  }
}
