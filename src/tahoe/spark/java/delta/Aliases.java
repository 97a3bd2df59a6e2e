package delta;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Names expressions, and gives the columns of a plan the expression ids that a query already uses for them. */
class Aliases {
  private Aliases() { }

  static Alias of(Attribute column, Attribute as) { return of(column, as.name(), as.exprId()); }

  /** An expression as a new column. */
  static Alias named(Expression value, String name) { return of(value, name, NamedExpression$.MODULE$.newExprId()); }

  static Alias of(Expression value, String name, ExprId id) {
    Seq nothing = CollectionConverters.asScala(new ArrayList()).toSeq();
    return new Alias(value, name, id, nothing, Option.empty(), nothing);
  }

  /** The columns of a plan by their names; of several with the same name, the first. */
  static Map byName(LogicalPlan plan) {
    Map found = new HashMap();
    for (Iterator output = CollectionConverters.asJava(plan.output()).iterator(); output.hasNext(); ) {
      Attribute column = (Attribute) output.next();
      found.putIfAbsent(column.name(), column);
    }
    return found;
  }

  /**
   * The plan's columns of the given names, with the given ids.
   *
   * @param wanted attributes; the plan has a column of each one's name
   * @param keepsRest whether the other columns of the plan follow, unchanged
   */
  static LogicalPlan project(LogicalPlan plan, Collection wanted, boolean keepsRest) {
    Map columns = byName(plan);
    ArrayList rest = new ArrayList(CollectionConverters.asJava(plan.output()));
    ArrayList selected = new ArrayList();
    for (Iterator it = wanted.iterator(); it.hasNext(); ) {
      Attribute as = (Attribute) it.next();
      Attribute column = (Attribute) columns.get(as.name());
      selected.add(of(column, as));
      if (keepsRest) rest.remove(column);
    }
    if (keepsRest) selected.addAll(rest);
    return new Project(CollectionConverters.asScala(selected).toSeq(), plan);
  }
}
