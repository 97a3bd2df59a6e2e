package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Analyzer rule: turns INSERT ... REPLACE USING and REPLACE ON into an overwrite of a {@link WriteTable} that carries which rows it
 * replaces. Spark parses these statements from some version on, but refuses them for tables of a catalog. It calls no Python;
 * {@code commands.run_command} runs the overwrite.
 */
public class Inserts extends Rule {
  public TreeNode apply(TreeNode tree) {
    if (!(tree instanceof Union)) return overwrite(tree);
    ArrayList each = new ArrayList();  // the INSERTs of one statement, or the parts of a query
    for (Iterator it = tree.children().iterator(); it.hasNext(); ) each.add(overwrite((TreeNode) it.next()));
    return tree.withNewChildren(CollectionConverters.asScala(each).toSeq());
  }

  private static TreeNode overwrite(TreeNode tree) {
    if (!(tree instanceof InsertIntoStatement)) return tree;
    InsertIntoStatement insert = (InsertIntoStatement) tree;
    Object replaced = replaced(insert);
    if (replaced == null || !(insert.table() instanceof DataSourceV2Relation)) return tree;
    Object table = ((DataSourceV2Relation) insert.table()).table();
    if (!(table instanceof WriteTable)) return tree;
    HashMap fields = new HashMap();
    Object knowing = ((WriteTable) table).replacing(replaced);
    fields.put("table", Cases.changed((Product) insert.table(), Collections.singletonMap("table", knowing)));
    fields.put("replaceCriteriaOpt", Option.empty());
    fields.put("overwrite", Boolean.TRUE);
    return (TreeNode) Cases.changed((Product) insert, fields);
  }

  /** Spark's InsertReplaceOn or InsertReplaceUsing of a statement; null if it has none. Found by name, as older Sparks lack the classes. */
  private static Object replaced(InsertIntoStatement insert) {
    for (Iterator parts = insert.productIterator(); parts.hasNext(); ) {
      Object part = parts.next();
      if (!(part instanceof Option) || ((Option) part).isEmpty()) continue;
      String name = ((Option) part).get().getClass().getSimpleName();
      if (name.equals("InsertReplaceOn") || name.equals("InsertReplaceUsing")) return ((Option) part).get();
    }
    return null;
  }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new Inserts(); }
  }
}
