package delta;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;

/**
 * A catalog of catalog-managed tables, which Spark loads by its class name under a name that the user chooses. Its schemas and tables are
 * those of a {@code tahoe.Catalog}. This is the class for Spark 4.1, which has no views in such catalogs; that of {@code java_views} takes
 * its place in newer versions.
 */
public class AttachedCatalog extends AttachedTables {
  void missing(Identifier table, String operation) {
    Object view = Ask.answer(Ask.python.attachedView(SparkSession.active(), name, joined(table.namespace()), table.name()));
    if (view != null) {
      String told = name + "." + table + " is a view, and Spark 4.1 reads views in its own catalog alone. ";
      throw new UnsupportedOperationException(told + "Read it with Spark 4.2 or newer, or make the view in spark_catalog.");
    }
  }
}
