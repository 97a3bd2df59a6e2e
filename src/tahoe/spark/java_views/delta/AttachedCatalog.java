package delta;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NoSuchViewException;
import org.apache.spark.sql.catalyst.analysis.ViewAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Relation;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * A catalog of catalog-managed tables and of views, which Spark loads by its class name under a name that the user chooses. Its schemas,
 * tables and views are those of a {@code tahoe.Catalog}. Python: {@code ddl.views}.
 */
public class AttachedCatalog extends AttachedTables implements RelationCatalog {
  private static final ObjectMapper JSON = new ObjectMapper();

  public Relation loadRelation(Identifier relation) throws NoSuchTableException {
    Relation found = (Relation) asked(relation);
    if (found == null) found = view(relation);
    if (found == null) throw new NoSuchTableException(relation);
    return found;
  }

  /** What Spark says of a view of its own. */
  void missing(Identifier table, String operation) {
    if (view(table) == null) return;
    scala.collection.immutable.Map told = (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
    told = (scala.collection.immutable.Map) told.updated("operation", operation);
    String full = name + "`.`" + String.join("`.`", table.namespace()) + "`.`" + table.name();
    told = (scala.collection.immutable.Map) told.updated("viewName", "`" + full + "`");
    Platform.throwException(new AnalysisException("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", told));
  }

  /** All of them are called managed tables: what they are in truth, only their logs say. */
  public TableSummary[] listRelationSummaries(String[] namespace) throws NoSuchNamespaceException {
    Identifier[] tables = listTables(namespace);
    Identifier[] views = listViews(namespace);
    TableSummary[] found = new TableSummary[tables.length + views.length];
    for (int i = 0; i < tables.length; i++) found[i] = TableSummary.of(tables[i], "MANAGED");
    for (int i = 0; i < views.length; i++) found[tables.length + i] = TableSummary.of(views[i], "VIEW");
    return found;
  }

  /** Null if there is none. */
  private View view(Identifier view) {
    Object told = Ask.answer(Ask.python.attachedView(SparkSession.active(), name, joined(view.namespace()), view.name()));
    return told == null ? null : read((String) told);
  }

  private static View read(String told) {
    Map found;
    try {
      found = (Map) JSON.readValue(told, Map.class);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
    View.Builder view = new View.Builder();
    view.withSchema((StructType) DataType.fromJson((String) found.get("schema")));
    view.withProperties((Map) found.get("properties"));
    view.withQueryText((String) found.get("text"));
    view.withCurrentCatalog((String) found.get("catalog"));
    view.withCurrentNamespace(texts(found.get("namespace")));
    view.withSqlConfigs((Map) found.get("configurations"));
    view.withSchemaMode((String) found.get("schema_mode"));
    view.withQueryColumnNames(texts(found.get("query_columns")));
    return view.build();
  }

  private static String[] texts(Object list) { return (String[]) ((List) list).toArray(new String[0]); }

  /** Whether it was made: not if a table has the name, or a view that is not to be replaced. */
  private boolean make(Identifier name, View view, boolean replaces) {
    Map told = new HashMap();
    told.put("text", view.queryText());
    told.put("schema", view.schema().json());
    told.put("catalog", view.currentCatalog());
    told.put("namespace", view.currentNamespace());
    told.put("configurations", view.sqlConfigs());
    told.put("query_columns", view.queryColumnNames());
    told.put("schema_mode", view.schemaMode());
    told.put("properties", view.properties());
    String json;
    try {
      json = JSON.writeValueAsString(told);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
    Object made = Ask.python.makeView(SparkSession.active(), this.name, joined(name.namespace()), name.name(), json, replaces);
    return ((Boolean) Ask.answer(made)).booleanValue();
  }

  public View loadView(Identifier view) throws NoSuchViewException {
    View found = view(view);
    if (found == null) throw new NoSuchViewException(view);
    return found;
  }

  public boolean viewExists(Identifier view) { return view(view) != null; }

  public View createView(Identifier name, View view) throws ViewAlreadyExistsException {
    if (!make(name, view, false)) throw new ViewAlreadyExistsException(name);
    return view;
  }

  public View createOrReplaceView(Identifier name, View view) throws ViewAlreadyExistsException {
    if (!make(name, view, true)) throw new ViewAlreadyExistsException(name);
    return view;
  }

  public View replaceView(Identifier name, View view) throws NoSuchViewException {
    if (!viewExists(name) || !make(name, view, true)) throw new NoSuchViewException(name);
    return view;
  }

  public boolean dropView(Identifier view) {
    return ((Boolean) Ask.answer(Ask.python.dropView(SparkSession.active(), name, joined(view.namespace()), view.name()))).booleanValue();
  }

  public void renameView(Identifier from, Identifier given) throws NoSuchViewException, ViewAlreadyExistsException {
    Identifier to = within(given);
    if (!viewExists(from)) throw new NoSuchViewException(from);
    if (viewExists(to) || url(to) != null) throw new ViewAlreadyExistsException(to);
    rename(from, to);
  }

  public Identifier[] listViews(String[] namespace) throws NoSuchNamespaceException {
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace);
    return identifiers(namespace, Ask.python.attachedViews(SparkSession.active(), name, joined(namespace)));
  }
}
