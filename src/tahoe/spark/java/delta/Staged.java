package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** A table that a statement is about to create or replace. Python commits the table, together with the rows that the statement writes. */
public class Staged extends WriteTable implements StagedTable {
  private final String mode;
  private final String catalog;
  private final Identifier identifier;
  private final Described described;
  private boolean made;

  /**
   * @param mode create, create if not exists, create in a pipeline, replace, or create or replace
   * @param catalog of the table's name; null for the session's catalog
   * @param path the table's folder; null for a table that has a name in a catalog
   */
  public Staged(String mode, String catalog, String path, Identifier identifier, Described described) {
    super(described, path);
    this.mode = mode;
    this.catalog = catalog;
    this.identifier = identifier;
    this.described = described;
  }

  public String mode() { return mode; }
  public String catalog() { return catalog; }
  public Identifier identifier() { return identifier; }

  /** The columns that the statement declares as generated or identity columns. */
  public Column[] computedColumns() { return described.computedColumns(); }

  /** Not {@code constraints()}: Spark would check these itself on the rows that it passes on. */
  public Constraint[] declaredConstraints() { return described.declaredConstraints(); }

  /** Called when a commit has created the table together with its rows. */
  public void setMade() { made = true; }

  public void commitStagedChanges() {
    if (!made) Ask.answer(Ask.python.create(SparkSession.active(), this));
  }

  public void abortStagedChanges() { }

  /** The definition in the statement, as Spark parsed it. */
  public static class Described implements Table {
    private final Identifier name;
    private final Column[] columns;
    private final Transform[] partitioning;
    private final Map properties;
    private final Constraint[] constraints;

    private Described(Identifier name, Column[] columns, Transform[] partitioning, Map properties, Constraint[] constraints) {
      this.name = name;
      this.columns = columns;
      this.partitioning = partitioning;
      this.properties = properties;
      this.constraints = constraints;
    }

    static Described of(Identifier name, TableInfo info) {
      return new Described(name, info.columns(), info.partitions(), info.properties(), info.constraints());
    }

    static Described of(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
      return new Described(name, columns, partitioning, properties, new Constraint[0]);
    }

    public String name() { return name.toString(); }
    public Column[] columns() { return columns; }
    public StructType schema() { return CatalogV2Util.v2ColumnsToStructType(columns); }
    public Transform[] partitioning() { return partitioning; }
    public Map properties() { return properties; }
    public Set capabilities() { return Collections.emptySet(); }

    Constraint[] declaredConstraints() { return constraints; }

    Column[] computedColumns() {
      List found = new ArrayList();
      for (int i = 0; i < columns.length; i++)
        if (columns[i].generationExpression() != null || columns[i].identityColumnSpec() != null) found.add(columns[i]);
      return (Column[]) found.toArray(new Column[0]);
    }
  }
}
